#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tutti/running_clock.hpp"

namespace tutti::control {

/// Waits until `holds`; false after `limit`. If this process is stopped meanwhile, its control
/// thread has received nothing, so the wait starts again.
template <class Holds>
bool wait_while_running(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                        std::chrono::milliseconds limit, RunningClock& clock, Holds holds) {
  // If the control thread itself hangs, no other thread reads the clock, and a single wait of
  // `limit` would look like a stop.
  constexpr std::chrono::milliseconds max_wait{100};
  static_assert(max_wait < RunningClock::longest_gap / 2);
  while (true) {
    clock.now();
    const auto stopped = clock.time_stopped();
    const auto end = RunningClock::Steady::now() + limit;
    for (auto now = RunningClock::Steady::now(); now < end; now = RunningClock::Steady::now()) {
      if (changed.wait_for(lock, std::min<RunningClock::Steady::duration>(end - now, max_wait),
                           holds)) {
        return true;
      }
      clock.now();
    }
    if (clock.time_stopped() == stopped) return holds();
  }
}

}  // namespace tutti::control
