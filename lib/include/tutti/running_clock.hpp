#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

namespace tutti {

/// A steady clock that does not count the time in which the process is stopped, by SIGSTOP, a
/// debugger or a suspended virtual machine. It detects a stop by its own readings: if two readings
/// are more than `longest_gap` apart, the rest of the gap does not count. A thread that waits for a
/// time on this clock must therefore read it several times per `longest_gap`.
class RunningClock {
 public:
  /// The clock that this one reads.
  using Steady = std::chrono::steady_clock;

  /// On an overloaded machine a thread may wait some hundred milliseconds for a core. That time
  /// counts.
  static constexpr std::chrono::milliseconds longest_gap{500};

  /// Starts at `start`.
  explicit RunningClock(Steady::time_point start = Steady::now())
      : latest_(start.time_since_epoch().count()) {}

  /// Thread-safe.
  Steady::time_point now() { return at(Steady::now()); }

  /// The reading at the time `now` of the steady clock.
  Steady::time_point at(Steady::time_point now) {
    if (now - latest() > resolution) note(now);
    return now - time_stopped();
  }

  /// Time in which the process was stopped since this clock was made.
  [[nodiscard]] Steady::duration time_stopped() const {
    return Steady::duration(stopped_.load(std::memory_order_acquire));
  }

 private:
  static constexpr std::chrono::milliseconds resolution{10};

  [[nodiscard]] Steady::time_point latest() const {
    return Steady::time_point(Steady::duration(latest_.load(std::memory_order_acquire)));
  }

  void note(Steady::time_point now) {
    const std::lock_guard lock(mutex_);
    const auto gap = now - latest();
    if (gap <= Steady::duration::zero()) return;
    // Before `latest_`: a thread that reads the new `latest_` must see this, too.
    if (gap > longest_gap) stopped_.fetch_add((gap - longest_gap).count());
    latest_.store(now.time_since_epoch().count(), std::memory_order_release);
  }

  std::mutex mutex_;
  std::atomic<Steady::rep> latest_;
  std::atomic<Steady::rep> stopped_{0};
};

}  // namespace tutti
