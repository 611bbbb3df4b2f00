#pragma once

#include <span>
#include <vector>

namespace tutti::app::bench {

/// The `fraction` quantile (0 to 1) of `values`, with linear interpolation. `values` must not be
/// empty.
[[nodiscard]] double quantile(std::span<const double> values, double fraction);
[[nodiscard]] double mean(std::span<const double> values);

/// Median and quartiles of paired ratios.
struct PairedRatio {
  double median = 0;
  double low = 0;
  double high = 0;
};
/// Quotients theirs[i] / ours[i] of times from the same round.
[[nodiscard]] PairedRatio paired_ratio(std::span<const double> theirs,
                                       std::span<const double> ours);

/// Order of `implementations` implementations in round `round`. Over all rounds, each
/// implementation is equally often before and after each other one.
[[nodiscard]] std::vector<std::size_t> order_of_round(std::size_t round,
                                                      std::size_t implementations);

}  // namespace tutti::app::bench
