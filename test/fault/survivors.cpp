#include "survivors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "support/catch.hpp"

namespace tutti::test {
namespace {

// The promised limits. Measured values are printed. time_factor() extends the limits on shared
// machines in CI only.
constexpr auto reported_within = 1s;
constexpr auto destroyed_within = 1500ms;

}  // namespace

LossReport check_survivors(const std::vector<Report>& reports, const std::set<int>& dead,
                           Clock::time_point since) {
  LossReport loss;
  int speakers = 0;
  bool is_first = true;
  INFO(describe(reports));
  for (int rank = 0; rank < static_cast<int>(reports.size()); ++rank) {
    if (dead.contains(rank)) continue;
    const auto& report = reports[static_cast<std::size_t>(rank)];
    CAPTURE(rank);
    REQUIRE(report.failure);
    const auto& failure = *report.failure;
    CHECK(failure.code == ErrorCode::peer_lost);
    if (is_first) loss.failed_ranks = failure.failed_ranks;
    is_first = false;
    CHECK(failure.failed_ranks == loss.failed_ranks);
    for (const int failed_rank : failure.failed_ranks) {
      CHECK(dead.contains(failed_rank));
      CHECK(failure.sentence.find(fmt::format("rank {} ", failed_rank)) != std::string::npos);
    }
    speakers += failure.speaks ? 1 : 0;
    loss.worst = std::max(loss.worst, report.ended - since);
    loss.worst_destruction = std::max(loss.worst_destruction, report.destruction);
  }
  CHECK_FALSE(loss.failed_ranks.empty());
  CHECK(speakers == 1);
  CHECK(seconds(loss.worst) < seconds(reported_within * time_factor()));
  CHECK(seconds(loss.worst_destruction) < seconds(destroyed_within * time_factor()));
  return loss;
}

void print(const char* what, const LossReport& worst) {
  fmt::print("{}: reported within {:.0f} ms, destroyed within {:.0f} ms\n", what,
             1e3 * seconds(worst.worst), 1e3 * seconds(worst.worst_destruction));
  std::fflush(stdout);
}

void keep_worst(LossReport& worst, const LossReport& loss) {
  worst.worst = std::max(worst.worst, loss.worst);
  worst.worst_destruction = std::max(worst.worst_destruction, loss.worst_destruction);
}

}  // namespace tutti::test
