#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

namespace tutti {

/// A steady clock that stands still while the process does: stopped by SIGSTOP or a debugger, or
/// together with its virtual machine. It notices by its readings: where none came for longer than
/// `longest_gap`, the process did not run, and what the gap has beyond that does not count. So
/// whoever waits for a time of this clock reads it several times in a `longest_gap`.
class RunningClock {
 public:
  /// The clock that it reads.
  using Steady = std::chrono::steady_clock;

  /// Where ranks outnumber cores by far, a thread may wait for some hundred milliseconds for its
  /// turn. That counts.
  static constexpr std::chrono::milliseconds longest_gap{500};

  /// Runs from `start`.
  explicit RunningClock(Steady::time_point start = Steady::now())
      : latest_(start.time_since_epoch().count()) {}

  /// From any thread.
  Steady::time_point now() { return at(Steady::now()); }

  /// The reading at the time `now` of the steady clock.
  Steady::time_point at(Steady::time_point now) {
    if (now - latest() > resolution) note(now);
    return now - time_stopped();
  }

  /// How long the process did not run since this clock was made, as far as the readings tell.
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
    // Before `latest_`: who sees that sees this, too.
    if (gap > longest_gap) stopped_.fetch_add((gap - longest_gap).count());
    latest_.store(now.time_since_epoch().count(), std::memory_order_release);
  }

  std::mutex mutex_;
  std::atomic<Steady::rep> latest_;
  std::atomic<Steady::rep> stopped_{0};
};

}  // namespace tutti
