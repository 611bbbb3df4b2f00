#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// Counts calls of one kind, among which trials of all ways to copy repeat. The first trials see
/// shared memory that is new and outside of the caches, so they are repeated soon; later ones are
/// so rare that the 99th percentile of a call does not contain them.
class Trials {
 public:
  /// Counts a call that moves blocks of `bytes`, and returns its offset.
  /// Trials begin at calls 0, `second_trial` (at most 96), 96, 192, 384, 768, 1536, 2536 and so on.
  /// The second one is left out for long calls: few of these bring the memory into the caches, and
  /// a program may make few of them.
  std::uint32_t count(std::uint32_t second_trial, std::size_t bytes) {
    if (calls_ == next_of(bytes < long_bytes ? second_trial : third_trial)) first_ = calls_;
    ++calls_;
    return offset();
  }
  /// Calls between the latest trial's first call and the latest call. After count().
  [[nodiscard]] std::uint32_t offset() const { return calls_ - 1 - first_; }
  /// Calls before the latest trial.
  [[nodiscard]] std::uint32_t first() const { return first_; }

 private:
  static constexpr std::size_t long_bytes = std::size_t{2} << 20;
  static constexpr std::uint32_t third_trial = 96;
  static constexpr std::uint32_t max_calls_between = 1000;
  [[nodiscard]] std::uint32_t next_of(std::uint32_t second_trial) const {
    if (first_ == 0) return second_trial;
    return first_ + std::clamp(first_, third_trial - second_trial, max_calls_between);
  }
  std::uint32_t calls_ = 0;
  std::uint32_t first_ = 0;
};

}  // namespace tutti
