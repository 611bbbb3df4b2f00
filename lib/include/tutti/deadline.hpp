#pragma once

#include <algorithm>
#include <chrono>

namespace tutti {

/// A point in time by which something must have happened. Measured on the steady clock, so that a
/// jump of the wall clock neither shortens nor lengthens it.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// `timeout` from now; a timeout too large for the clock means never.
  static Deadline after(std::chrono::nanoseconds timeout) {
    const auto now = Clock::now();
    if (timeout >= Clock::time_point::max() - now) return never();
    return Deadline(now + timeout);
  }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  [[nodiscard]] bool is_never() const { return at_ == Clock::time_point::max(); }
  [[nodiscard]] bool expired() const { return !is_never() && Clock::now() >= at_; }

  /// Time left, never negative; an hour where there is no deadline.
  [[nodiscard]] std::chrono::nanoseconds remaining() const {
    if (is_never()) return std::chrono::hours(1);
    return std::max<std::chrono::nanoseconds>(at_ - Clock::now(), std::chrono::nanoseconds(0));
  }

  /// The earlier of this and `timeout` from now.
  [[nodiscard]] Deadline within(std::chrono::nanoseconds timeout) const {
    return Deadline(std::min(at_, after(timeout).at_));
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace tutti
