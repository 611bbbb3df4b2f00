#pragma once

#include <span>
#include <vector>

namespace tutti::app::bench {

/// The value that `fraction` (0 to 1) of `values` lie below, interpolated between neighbours. There
/// is at least one value.
[[nodiscard]] double quantile(std::span<const double> values, double fraction);
[[nodiscard]] double mean(std::span<const double> values);

/// A ratio taken pair by pair: its median and quartiles.
struct PairedRatio {
  double median = 0;
  double low = 0;
  double high = 0;
};
/// theirs[i] / ours[i], where both were measured one beside the other.
[[nodiscard]] PairedRatio paired_ratio(std::span<const double> theirs,
                                       std::span<const double> ours);

/// In which order `peers` peers come in round `round`: each is as often before as after each other.
[[nodiscard]] std::vector<std::size_t> order_of_round(std::size_t round, std::size_t peers);

}  // namespace tutti::app::bench
