#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "algorithm/cost_model.hpp"
#include "base/call_signature.hpp"
#include "base/published_bytes.hpp"

/// Closed formulas for the time of a call, cheap enough to evaluate before each call. They model
/// shared links of hosts and pipelining, and no variance; docs/algorithms.md explains them.
namespace tutti::algorithm {

/// Placement of the ranks, as far as the formulas depend on it.
struct RankLayout {
  int ranks = 1;
  int hosts = 1;
  int max_on_a_host = 1;
};

/// `host` as in ScheduleArguments::host; empty: all on one host.
[[nodiscard]] RankLayout rank_layout(int ranks, const std::vector<int>& host);

struct CostQuestion {
  Operation operation = Operation::broadcast;
  std::string_view algorithm;
  RankLayout layout;
  double bytes = 0;                            ///< ScheduleArguments::count in bytes
  double chunk = 1;                            ///< ScheduleArguments::chunk in bytes
  double max_published = max_published_bytes;  ///< ScheduleArguments::max_published in bytes
};

/// Time in seconds; 0 for algorithms without a formula.
[[nodiscard]] double cost_of(const CostQuestion& question, const CostModel& model);
/// Number of rounds, that is of messages that depend on each other, as in docs/algorithms.md.
[[nodiscard]] std::int64_t rounds_of(const CostQuestion& question);

}  // namespace tutti::algorithm
