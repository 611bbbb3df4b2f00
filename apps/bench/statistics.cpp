#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tutti::app::bench {

double quantile(std::span<const double> values, double fraction) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double at = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const auto above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - std::floor(at));
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

PairedRatio paired_ratio(std::span<const double> theirs, std::span<const double> ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i) {
    ratios.push_back(theirs[i] / ours[i]);
  }
  return {quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75)};
}

std::vector<std::size_t> order_of_round(std::size_t round, std::size_t implementations) {
  std::vector<std::size_t> order(implementations);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::rotate(order.begin(),
              order.begin() + static_cast<std::ptrdiff_t>(round / 2 % implementations),
              order.end());
  if (round % 2 != 0) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace tutti::app::bench
