#include "report.hpp"

namespace tutti::app::bench {
namespace {

constexpr double to_us = 1e6;

Row make_row(const CallSpec& spec, const std::string& implementation,
             const ImplementationResult& result) {
  const double median = quantile(result.seconds, 0.5);
  Row row{.implementation = implementation,
          .median_us = median * to_us,
          .p10_us = quantile(result.seconds, 0.1) * to_us,
          .p90_us = quantile(result.seconds, 0.9) * to_us,
          .p99_us = quantile(result.seconds, 0.99) * to_us,
          .max_us = quantile(result.seconds, 1) * to_us,
          .mean_us = mean(result.seconds) * to_us,
          .throughput_us = std::nullopt,
          .bandwidth = bandwidth_of(spec, median),
          .iterations = result.seconds.size(),
          .wrong = std::nullopt,
          .algorithm = result.algorithm};
  if (result.computes) row.wrong = result.wrong_elements;
  if (!result.throughput.empty()) {
    row.throughput_us = quantile(result.throughput, 0.5) * to_us;
  }
  return row;
}

Ratio make_ratio(const std::string& implementation, const ImplementationResult& theirs,
                 const ImplementationResult& ours) {
  Ratio ratio{.vs = implementation,
              .ratio = paired_ratio(theirs.seconds, ours.seconds),
              .throughput = std::nullopt};
  if (!theirs.throughput.empty() && !ours.throughput.empty()) {
    ratio.throughput = paired_ratio(theirs.throughput, ours.throughput).median;
  }
  return ratio;
}

}  // namespace

Comparison make_comparison(const CallSpec& spec, const std::vector<std::string>& names,
                           const std::vector<ImplementationResult>& results) {
  Comparison comparison{.spec = spec, .rows = {}, .ratios = {}, .missing = {}};
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].missing.empty()) {
      comparison.missing.push_back({names[i], results[i].missing});
      continue;
    }
    comparison.rows.push_back(make_row(spec, names[i], results[i]));
    if (i > 0) comparison.ratios.push_back(make_ratio(names[i], results[i], results[0]));
  }
  return comparison;
}

}  // namespace tutti::app::bench
