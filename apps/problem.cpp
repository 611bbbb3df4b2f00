#include "problem.hpp"

#include <fmt/format.h>

#include "tutti/error.hpp"

namespace tutti::app {
namespace {

std::size_t ranks_of(const Problem& problem) {
  return static_cast<std::size_t>(problem.ranks);
}

std::size_t elements_of(const Problem& problem, Extent extent) {
  if (extent == Extent::none) return 0;
  return extent == Extent::one ? problem.count : problem.count * ranks_of(problem);
}

/// Whether the size that people give counts all blocks.
bool size_has_all_blocks(const Shape& shape) {
  return shape.send == Extent::all && shape.recv == Extent::all;
}

/// Where a part of `extent` begins in a buffer of the larger one.
std::size_t place_in(const Problem& problem, Extent extent, Extent larger) {
  if (extent == larger) return 0;
  return problem.count * static_cast<std::size_t>(problem.rank);
}

/// Input and result in one buffer, as far as this rank has them.
void share(Layout& layout, const Problem& problem, const Shape& shape) {
  const auto larger = std::max(shape.send, shape.recv);
  layout.shared = true;
  layout.recv_elements = elements_of(problem, larger);
  layout.input_at = place_in(problem, shape.send, larger);
  layout.result_at = place_in(problem, shape.recv, larger);
}

}  // namespace

Shape shape_of(const Problem& problem) {
  if (problem.operation == Operation::send_recv) {
    return {.send = Extent::one, .recv = Extent::one, .collective = false};
  }
  return shape_of(problem.operation);
}

std::size_t count_for(const Problem& problem, std::size_t bytes) {
  const auto shape = shape_of(problem);
  const auto blocks = size_has_all_blocks(shape) ? ranks_of(problem) : 1;
  const auto unit = size_of(problem.type) * blocks;
  const auto count = bytes / unit + (bytes % unit != 0 ? 1 : 0);
  const auto most = static_cast<std::size_t>(INT64_MAX) / size_of(problem.type) / ranks_of(problem);
  if (count > most) {
    throw Error(ErrorCode::usage,
                fmt::format("{} B for each of {} ranks are more than memory can hold: give a "
                            "smaller --size",
                            bytes, problem.ranks));
  }
  return count;
}

std::size_t bytes_of(const Problem& problem) {
  const auto shape = shape_of(problem);
  const auto extent = size_has_all_blocks(shape) ? Extent::all : Extent::one;
  return elements_of(problem, extent) * size_of(problem.type);
}

Layout layout_of(const Problem& problem) {
  auto shape = shape_of(problem);
  const bool is_root = problem.rank == problem.root;
  Layout layout;
  if (shape.send == Extent::none) {
    // The root's input becomes everybody's result, in one buffer.
    layout.has_input = shape.rooted && is_root;
    layout.has_result = shape.recv != Extent::none;
    layout.shared = layout.has_result;
    shape.send = shape.recv;
  } else {
    layout.has_input = !shape.send_at_root_only || is_root;
    layout.has_result = !shape.recv_at_root_only || is_root;
  }
  layout.input_elements = layout.has_input ? elements_of(problem, shape.send) : 0;
  layout.result_elements = layout.has_result ? elements_of(problem, shape.recv) : 0;
  // Where the root's buffer is larger, the other ranks have nothing to share.
  const bool at_root_only = shape.rooted && shape.send != shape.recv;
  if (layout.shared || (problem.in_place && (is_root || !at_root_only))) {
    share(layout, problem, shape);
  } else {
    layout.send_elements = layout.input_elements;
    layout.recv_elements = layout.result_elements;
  }
  return layout;
}

bool is_in_place(const Problem& problem) {
  const auto shape = shape_of(problem);
  return shape.send == Extent::none ? shape.recv != Extent::none : problem.in_place;
}

int next_of(const Problem& problem) {
  return (problem.rank + 1) % problem.ranks;
}

int previous_of(const Problem& problem) {
  return (problem.rank + problem.ranks - 1) % problem.ranks;
}

Collective collective_of(const Problem& problem, const void* send, void* recv) {
  const auto layout = layout_of(problem);
  const auto shape = shape_of(problem);
  Collective call{.operation = problem.operation,
                  .type = problem.type,
                  .op = problem.op,
                  .root = shape.rooted ? problem.root : -1,
                  .recv = recv,
                  .recv_count = layout.recv_elements};
  if (layout.shared) {
    call.in_place = shape.send != Extent::none;
  } else {
    call.send = send;
    call.send_count = layout.send_elements;
  }
  return call;
}

}  // namespace tutti::app
