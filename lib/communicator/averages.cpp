#include "averages.hpp"

#include <numeric>

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
  engine::Contribution contribution{
      .type = call.type, .weight = engine::average_weight(static_cast<std::size_t>(ranks))};
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

CheckedCollective premultiplied(const CheckedCollective& call, int ranks,
                                std::vector<std::byte>& memory) {
  const auto& shape = shape_of(call.operation);
  auto elements = call.count;
  if (shape.send == Extent::all) {
    elements = call.counts.empty()
                   ? call.count * static_cast<std::size_t>(ranks)
                   : std::accumulate(call.counts.begin(), call.counts.end(), std::size_t{0});
  }
  auto result = call;
  result.in_place = call.recv != nullptr && shape.send == shape.recv;
  auto* to = static_cast<std::byte*>(call.recv);
  if (!result.in_place) {
    memory.resize(elements * size_of(call.type));
    to = memory.data();
  }
  engine::weigh(to, static_cast<const std::byte*>(call.send), elements, call.type, call.factor);
  result.send = to;
  return result;
}

}  // namespace tutti
