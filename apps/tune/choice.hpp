#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tutti::app::tune {

/// Times of one call of a size on both paths, in the same unit. Above 0.
struct Timed {
  std::size_t bytes = 0;
  double direct_us = 0;
  double nccl_us = 0;
};

/// How many of the sizes, which ascend, should take the direct path. That is where the product of
/// the speed-ups of all sizes below is largest: one disturbed time among others does not move it.
/// Of equal choices the one with more sizes.
[[nodiscard]] std::size_t direct_sizes(std::span<const Timed> times);

/// The size in bytes up to which calls should take the direct path; 0: none.
[[nodiscard]] std::size_t direct_up_to(std::span<const Timed> times);

/// True if larger sizes won't change the choice: the latest ones lose so much against NCCL that
/// they need not be measured, and may take long.
[[nodiscard]] bool is_settled(std::span<const Timed> times);

}  // namespace tutti::app::tune
