#include "call_spec.hpp"

#include <fmt/format.h>

#include "tutti/error.hpp"

namespace tutti::app {
namespace {

std::size_t ranks_of(const CallSpec& spec) {
  return static_cast<std::size_t>(spec.ranks);
}

std::size_t elements_of(const CallSpec& spec, Extent extent) {
  if (extent == Extent::none) return 0;
  return extent == Extent::one ? spec.count : spec.count * ranks_of(spec);
}

/// Whether the size that the user gives covers the blocks of all ranks.
bool size_has_all_blocks(const Shape& shape) {
  return shape.send == Extent::all && shape.recv == Extent::all;
}

/// Offset of this rank's part, of size `extent`, in a buffer of size `larger`; in elements.
std::size_t offset_in(const CallSpec& spec, Extent extent, Extent larger) {
  if (extent == larger) return 0;
  return spec.count * static_cast<std::size_t>(spec.rank);
}

/// Puts input and result into one buffer, where this rank has both.
void use_one_buffer(BufferLayout& layout, const CallSpec& spec, const Shape& shape) {
  const auto larger = std::max(shape.send, shape.recv);
  layout.shared = true;
  layout.recv_elements = elements_of(spec, larger);
  layout.input_at = offset_in(spec, shape.send, larger);
  layout.result_at = offset_in(spec, shape.recv, larger);
}

}  // namespace

Shape shape_of(const CallSpec& spec) {
  if (spec.operation == Operation::send_recv) {
    return {.send = Extent::one, .recv = Extent::one, .collective = false};
  }
  return shape_of(spec.operation);
}

std::size_t count_for(const CallSpec& spec, std::size_t bytes) {
  const auto shape = shape_of(spec);
  const auto blocks = size_has_all_blocks(shape) ? ranks_of(spec) : 1;
  const auto unit = size_of(spec.type) * blocks;
  const auto count = bytes / unit + (bytes % unit != 0 ? 1 : 0);
  const auto max = static_cast<std::size_t>(INT64_MAX) / size_of(spec.type) / ranks_of(spec);
  if (count > max) {
    throw Error(
        ErrorCode::usage,
        fmt::format("{} B for each of {} ranks exceed the address space: give a smaller --size",
                    bytes, spec.ranks));
  }
  return count;
}

std::size_t bytes_of(const CallSpec& spec) {
  const auto shape = shape_of(spec);
  const auto extent = size_has_all_blocks(shape) ? Extent::all : Extent::one;
  return elements_of(spec, extent) * size_of(spec.type);
}

BufferLayout buffer_layout_of(const CallSpec& spec) {
  auto shape = shape_of(spec);
  const bool is_root = spec.rank == spec.root;
  BufferLayout layout;
  if (shape.send == Extent::none) {
    // Input of the root and result of every rank are one buffer.
    layout.has_input = shape.rooted && is_root;
    layout.has_result = shape.recv != Extent::none;
    layout.shared = layout.has_result;
    shape.send = shape.recv;
  } else {
    layout.has_input = !shape.send_at_root_only || is_root;
    layout.has_result =
        (!shape.recv_at_root_only || is_root) && !(shape.exclusive && spec.rank == 0);
  }
  layout.input_elements = layout.has_input ? elements_of(spec, shape.send) : 0;
  layout.result_elements = layout.has_result ? elements_of(spec, shape.recv) : 0;
  // If only the root has the larger buffer, the other ranks can't work in-place.
  const bool at_root_only = shape.rooted && shape.send != shape.recv;
  if (layout.shared || (spec.in_place && (is_root || !at_root_only))) {
    use_one_buffer(layout, spec, shape);
  } else {
    layout.send_elements = layout.input_elements;
    layout.recv_elements = layout.result_elements;
  }
  return layout;
}

bool is_in_place(const CallSpec& spec) {
  const auto shape = shape_of(spec);
  return shape.send == Extent::none ? shape.recv != Extent::none : spec.in_place;
}

int next_of(const CallSpec& spec) {
  return (spec.rank + 1) % spec.ranks;
}

int previous_of(const CallSpec& spec) {
  return (spec.rank + spec.ranks - 1) % spec.ranks;
}

int reduced_ranks(const CallSpec& spec) {
  const auto shape = shape_of(spec);
  if (!shape.scans) return spec.ranks;
  return shape.exclusive ? spec.rank : spec.rank + 1;
}

Collective collective_of(const CallSpec& spec, const void* send, void* recv) {
  const auto layout = buffer_layout_of(spec);
  const auto shape = shape_of(spec);
  Collective call{.operation = spec.operation,
                  .type = spec.type,
                  .op = spec.op,
                  .factor = static_cast<double>(factor_of(spec.rank)),
                  .root = shape.rooted ? spec.root : -1,
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
