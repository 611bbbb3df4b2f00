#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "algorithm/cost_model.hpp"
#include "base/call_signature.hpp"

/// Closed formulas for what a call takes: cheap enough to be asked before each call. They know
/// where a host's link is shared and what is pipelined, and nothing of chance; docs/algorithms.md
/// has them in words.
namespace tutti::algorithm {

/// What the formulas look at of the placement of ranks.
struct Layout {
  int ranks = 1;
  int hosts = 1;
  int max_on_a_host = 1;
};

/// `host` as Problem::host; empty: all on one host.
[[nodiscard]] Layout layout_of(int ranks, const std::vector<int>& host);

struct CostQuestion {
  Operation operation = Operation::broadcast;
  std::string_view algorithm;
  Layout layout;
  double bytes = 0;  ///< Problem::count in bytes
  double chunk = 1;  ///< Problem::chunk in bytes
};

/// Seconds. Of what the formulas do not know: 0.
[[nodiscard]] double cost_of(const CostQuestion& question, const CostModel& model);
/// Rounds as docs/algorithms.md counts them: messages that can only follow each other.
[[nodiscard]] std::int64_t rounds_of(const CostQuestion& question);

}  // namespace tutti::algorithm
