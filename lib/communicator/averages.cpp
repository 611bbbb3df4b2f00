#include "averages.hpp"

#include "base/shape.hpp"
#include "engine/reduce.hpp"

namespace tutti {

std::optional<engine::Task::Division> division_of(const CheckedCollective& call, int ranks) {
  if (call.op != Operator::average || call.recv == nullptr || engine::divides_itself(call.type)) {
    return {};
  }
  return engine::Task::Division{.buffer = static_cast<std::byte*>(call.recv),
                                .count = call.count,
                                .type = call.type,
                                .ranks = ranks,
                                .weighs = engine::is_weighed(call.type) && call.in_place};
}

std::optional<engine::Contribution> contribution_of(const CheckedCollective& call,
                                                    const std::byte* output, int ranks) {
  const auto& shape = shape_of(call.operation);
  if (call.op != Operator::average || !shape.reduces || !engine::is_weighed(call.type)) return {};
  engine::Contribution contribution{.type = call.type, .ranks = ranks};
  if (call.in_place) {
    // All of it may be overwritten, and has been weighed there.
    if (shape.send == shape.recv) return {};
    contribution.is_output = true;
    const auto begin = (static_cast<const std::byte*>(call.recv) - output) /
                       static_cast<std::ptrdiff_t>(size_of(call.type));
    contribution.weighed = {begin, begin + static_cast<std::ptrdiff_t>(call.count)};
  }
  return contribution;
}

}  // namespace tutti
