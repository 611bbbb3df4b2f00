#include "report.hpp"

namespace tutti::app::bench {
namespace {

constexpr double to_us = 1e6;

Row make_row(const Problem& problem, const std::string& peer, const SideResult& result) {
  const double median = quantile(result.seconds, 0.5);
  Row row{.peer = peer,
          .median_us = median * to_us,
          .p10_us = quantile(result.seconds, 0.1) * to_us,
          .p90_us = quantile(result.seconds, 0.9) * to_us,
          .mean_us = mean(result.seconds) * to_us,
          .back_to_back_us = std::nullopt,
          .bandwidth = bandwidth_of(problem, median),
          .iterations = result.seconds.size(),
          .wrong = std::nullopt,
          .algorithm = result.algorithm};
  if (result.computes) row.wrong = result.wrong_elements;
  if (!result.back_to_back.empty()) {
    row.back_to_back_us = quantile(result.back_to_back, 0.5) * to_us;
  }
  return row;
}

Ratio make_ratio(const std::string& peer, const SideResult& theirs, const SideResult& ours) {
  Ratio ratio{.vs = peer,
              .ratio = paired_ratio(theirs.seconds, ours.seconds),
              .back_to_back = std::nullopt};
  if (!theirs.back_to_back.empty() && !ours.back_to_back.empty()) {
    ratio.back_to_back = paired_ratio(theirs.back_to_back, ours.back_to_back).median;
  }
  return ratio;
}

}  // namespace

Cell make_cell(const Problem& problem, const std::vector<std::string>& names,
               const std::vector<SideResult>& results) {
  Cell cell{.problem = problem, .rows = {}, .ratios = {}, .missing = {}};
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].missing.empty()) {
      cell.missing.push_back({names[i], results[i].missing});
      continue;
    }
    cell.rows.push_back(make_row(problem, names[i], results[i]));
    if (i > 0) cell.ratios.push_back(make_ratio(names[i], results[i], results[0]));
  }
  return cell;
}

}  // namespace tutti::app::bench
