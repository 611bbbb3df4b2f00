#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tutti::device {

/// Waiting for a device by looking again and again: all the time at first, as CUDA's own waits do;
/// after some milliseconds with pauses of a hundredth of the time waited, so that a long wait costs
/// no core and ends little later.
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] Clock::duration waited() const { return Clock::now() - start_; }
  void pause() const {
    const auto so_far = waited();
    if (so_far < spin_time) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>(so_far / 100, longest_pause));
    }
  }

 private:
  static constexpr std::chrono::milliseconds spin_time{10};
  static constexpr std::chrono::milliseconds longest_pause{1};
  Clock::time_point start_ = Clock::now();
};

}  // namespace tutti::device
