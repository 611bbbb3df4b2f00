#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "tutti/running_clock.hpp"

namespace tutti {

/// A point in time by which something must have happened. Measured on the steady clock, so that a
/// jump of the wall clock neither shortens nor lengthens it; or on a RunningClock, so that time in
/// which this process was stopped does not count.
class Deadline {
 public:
  /// The clock of a deadline without a RunningClock.
  using Clock = std::chrono::steady_clock;

  /// `timeout` from now, on `clock`, or on the steady clock if it is null. A timeout that is too
  /// large for the clock means never.
  static Deadline after(std::chrono::nanoseconds timeout,
                        std::shared_ptr<RunningClock> clock = nullptr) {
    const auto now = now_of(clock.get());
    if (timeout >= Clock::time_point::max() - now) {
      return {Clock::time_point::max(), std::move(clock)};
    }
    return {now + timeout, std::move(clock)};
  }
  /// `timeout` from now. Time in which the process is stopped (SIGSTOP) does not count. The caller
  /// must poll this deadline at least every poll_interval(): a longer gap counts as a stop.
  static Deadline after_running(std::chrono::nanoseconds timeout) {
    return after(timeout, std::make_shared<RunningClock>());
  }
  /// A deadline that does not pass.
  static Deadline never() { return {Clock::time_point::max(), nullptr}; }

  /// True of never(), and of a timeout too large for the clock.
  [[nodiscard]] bool is_never() const { return at_ == Clock::time_point::max(); }
  /// True once it has passed.
  [[nodiscard]] bool expired() const { return !is_never() && now_of(clock_.get()) >= at_; }

  /// Time left, never negative; an hour for never(). To wait, sleep at most poll_interval(), so
  /// that a RunningClock that no other thread reads does not take the sleep for a stop.
  [[nodiscard]] std::chrono::nanoseconds remaining() const {
    if (is_never()) return std::chrono::hours(1);
    return std::max<std::chrono::nanoseconds>(at_ - now_of(clock_.get()),
                                              std::chrono::nanoseconds(0));
  }

  /// Longest sleep before the deadline must be read again: the time left, or less with a
  /// RunningClock, which is kept by its readings.
  [[nodiscard]] std::chrono::nanoseconds poll_interval() const {
    constexpr std::chrono::nanoseconds longest = std::chrono::milliseconds(200);
    return clock_ ? std::min(remaining(), longest) : remaining();
  }

  /// The earlier of this and `timeout` from now.
  [[nodiscard]] Deadline within(std::chrono::nanoseconds timeout) const {
    return {std::min(at_, anew(timeout).at_), clock_};
  }

  /// `timeout` from now, by the same clock.
  [[nodiscard]] Deadline anew(std::chrono::nanoseconds timeout) const {
    return after(timeout, clock_);
  }

  /// Null for the steady clock.
  [[nodiscard]] const std::shared_ptr<RunningClock>& clock() const { return clock_; }

 private:
  Deadline(Clock::time_point at, std::shared_ptr<RunningClock> clock)
      : at_(at), clock_(std::move(clock)) {}
  static Clock::time_point now_of(RunningClock* clock) {
    return clock != nullptr ? clock->now() : Clock::now();
  }

  Clock::time_point at_;
  std::shared_ptr<RunningClock> clock_;
};

}  // namespace tutti
