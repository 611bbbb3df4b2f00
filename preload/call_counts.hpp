#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "nccl_call.hpp"

namespace tutti::preload {

/// How many calls of each kind were served, and how many handed on, by reason.
struct CallCounts {
  std::array<std::atomic<std::uint64_t>, call_kinds> served{};
  std::array<std::array<std::atomic<std::uint64_t>, obstacles>, call_kinds> handed_on{};

  void add_served(CallKind kind);
  void add_handed_on(CallKind kind, Obstacle obstacle);
  [[nodiscard]] bool any() const;
};

}  // namespace tutti::preload
