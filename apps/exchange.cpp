#include "exchange.hpp"

#include <algorithm>

namespace tutti::app {
namespace {

constexpr std::byte poison{0xA5};

/// Elements of each rank's input, if it has one.
std::size_t input_length(const Problem& problem, const Shape& shape) {
  return shape.send == Extent::all ? problem.count * static_cast<std::size_t>(problem.ranks)
                                   : problem.count;
}

/// The rank whose input becomes block `block` of the result.
int source_of(const Problem& problem, const Shape& shape, int block) {
  if (shape.recv == Extent::all) return block;
  return shape.rooted ? problem.root : previous_of(problem);
}

}  // namespace

Exchange::Exchange(const Problem& problem)
    : problem_(problem),
      shape_(shape_of(problem)),
      layout_(layout_of(problem)),
      input_(Pattern::of_rank(problem, problem.rank, input_length(problem, shape_))) {
  if (shape_.reduces) reduced_ = Pattern::reduced(problem, input_length(problem, shape_));
}

void Exchange::fill(std::span<std::byte> send, std::span<std::byte> recv) const {
  std::fill(send.begin(), send.end(), poison);
  std::fill(recv.begin(), recv.end(), poison);
  if (!layout_.has_input) return;
  auto* const buffer = layout_.shared ? recv.data() : send.data();
  input_.fill(buffer + layout_.input_at * size_of(problem_.type), 0, layout_.input_elements);
}

Wrong Exchange::check(std::span<const std::byte> send, std::span<const std::byte> recv,
                      bool input_too) const {
  Wrong wrong;
  const auto size = size_of(problem_.type);
  if (layout_.has_result) check_result(recv.data() + layout_.result_at * size, wrong);
  if (input_too && layout_.has_input && (!layout_.shared || !layout_.has_result)) {
    const auto* const input = layout_.shared ? recv.data() : send.data();
    input_.compare(input + layout_.input_at * size, 0, layout_.input_elements, 0, wrong);
  }
  return wrong;
}

void Exchange::check_result(const std::byte* result, Wrong& wrong) const {
  const auto count = problem_.count;
  // Which part of the sources' inputs comes here.
  const auto first =
      shape_.send == Extent::all ? count * static_cast<std::size_t>(problem_.rank) : 0;
  if (reduced_) return reduced_->compare(result, first, count, 0, wrong);
  const int blocks = shape_.recv == Extent::all ? problem_.ranks : 1;
  for (int block = 0; block < blocks; ++block) {
    const auto at = static_cast<std::size_t>(block) * count;
    const auto source = Pattern::of_rank(problem_, source_of(problem_, shape_, block),
                                         input_length(problem_, shape_));
    source.compare(result + at * size_of(problem_.type), first, count, at, wrong);
  }
}

}  // namespace tutti::app
