#include "call_counts.hpp"

#include <algorithm>

namespace tutti::preload {

void CallCounts::add_served(CallKind kind) {
  served.at(static_cast<std::size_t>(kind)).fetch_add(1, std::memory_order_relaxed);
}

void CallCounts::add_handed_on(CallKind kind, Obstacle obstacle) {
  handed_on.at(static_cast<std::size_t>(kind))
      .at(static_cast<std::size_t>(obstacle))
      .fetch_add(1, std::memory_order_relaxed);
}

bool CallCounts::any() const {
  const auto is_set = [](const std::atomic<std::uint64_t>& count) { return count.load() != 0; };
  return std::any_of(served.begin(), served.end(), is_set) ||
         std::any_of(handed_on.begin(), handed_on.end(), [&](const auto& by_reason) {
           return std::any_of(by_reason.begin(), by_reason.end(), is_set);
         });
}

}  // namespace tutti::preload
