#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tutti::device {

/// Polls a device with increasing pauses: continuously at first, like CUDA's own waits; after some
/// milliseconds with pauses of 1 % of the time waited, so that a long wait uses little processor
/// time and ends hardly later.
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;

  void pause() const {
    const auto so_far = Clock::now() - start_;
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
