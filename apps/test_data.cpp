#include "test_data.hpp"

#include <algorithm>

namespace tutti::app {
namespace {

constexpr std::byte poison{0xA5};

/// Elements of each rank's input, if there is one.
std::size_t input_length(const CallSpec& spec, const Shape& shape) {
  return shape.send == Extent::all ? spec.count * static_cast<std::size_t>(spec.ranks) : spec.count;
}

/// The rank that supplies block `block` of the result.
int source_of(const CallSpec& spec, const Shape& shape, int block) {
  if (shape.recv == Extent::all) return block;
  return shape.rooted ? spec.root : previous_of(spec);
}

}  // namespace

TestData::TestData(const CallSpec& spec)
    : spec_(spec),
      shape_(shape_of(spec)),
      layout_(buffer_layout_of(spec)),
      input_(Pattern::of_rank(spec, spec.rank, input_length(spec, shape_))) {
  if (shape_.reduces) reduced_ = Pattern::reduced(spec, input_length(spec, shape_));
}

void TestData::fill(std::span<std::byte> send, std::span<std::byte> recv) const {
  std::fill(send.begin(), send.end(), poison);
  std::fill(recv.begin(), recv.end(), poison);
  if (!layout_.has_input) return;
  auto* const buffer = layout_.shared ? recv.data() : send.data();
  input_.fill(buffer + layout_.input_at * size_of(spec_.type), 0, layout_.input_elements);
}

CheckResult TestData::check(std::span<const std::byte> send, std::span<const std::byte> recv,
                            bool input_too) const {
  CheckResult wrong;
  const auto size = size_of(spec_.type);
  if (layout_.has_result) check_result(recv.data() + layout_.result_at * size, wrong);
  if (input_too && layout_.has_input && (!layout_.shared || !layout_.has_result)) {
    const auto* const input = layout_.shared ? recv.data() : send.data();
    input_.compare(input + layout_.input_at * size, 0, layout_.input_elements, 0, wrong);
  }
  return wrong;
}

void TestData::check_result(const std::byte* result, CheckResult& wrong) const {
  const auto count = spec_.count;
  // Offset of the part of each source's input that this rank receives.
  const auto first = shape_.send == Extent::all ? count * static_cast<std::size_t>(spec_.rank) : 0;
  if (reduced_) return reduced_->compare(result, first, count, 0, wrong);
  const int blocks = shape_.recv == Extent::all ? spec_.ranks : 1;
  for (int block = 0; block < blocks; ++block) {
    const auto at = static_cast<std::size_t>(block) * count;
    const auto source =
        Pattern::of_rank(spec_, source_of(spec_, shape_, block), input_length(spec_, shape_));
    source.compare(result + at * size_of(spec_.type), first, count, at, wrong);
  }
}

}  // namespace tutti::app
