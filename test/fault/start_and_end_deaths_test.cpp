// Death of ranks during set-up, and while others leave.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/own_kernel.hpp"
#include "survivors.hpp"

namespace tutti::test {

TEST_CASE(
    "a death during set-up, after the exchange of peer infos, is reported before the deadline") {
  LossReport worst;
  for (const int size : {2, 3, 4, 5, 8}) {
    for (const int victim : {0, size - 1}) {
      for (int round = 0; round < 3; ++round) {
        CAPTURE(size, victim, round);
        Job job(size, [victim](Rank& rank) -> std::string {
          rank.bootstrap().after = [&rank, victim](int exchange) {
            if (exchange != 3 || rank.rank() != victim) return;
            rank.stamp();
            ::_exit(3);
          };
          auto& communicator = rank.communicator({.timeout = 10s});
          std::vector<float> data(1000);
          reduce_and_check(rank, communicator, data);
          return "reduced without the dead";
        });
        const auto reports = job.finish();
        const auto loss = check_survivors(reports, {victim}, job.stamped(victim));
        CHECK(loss.failed_ranks == std::vector{victim});
        keep_worst(worst, loss);
      }
    }
  }
  print("death in set-up", worst);
}

TEST_CASE("a death before there are links is reported across hosts whose kernels can't see it") {
  if (const auto reason = why_no_own_kernel(); !reason.empty()) {
    WARN("skipped: " + reason);
    return;
  }
  // Rank 0 dials the other ranks, which wait for it; the last rank is only dialed.
  for (const int victim : {0, 2}) {
    CAPTURE(victim);
    Job job(3, [victim](Rank& rank) -> std::string {
      expect(pretend_own_kernel(rank.rank()) == 0, "no boot id of its own");
      rank.bootstrap().after = [&rank, victim](int exchange) {
        if (exchange == 3 && rank.rank() == victim) ::_exit(3);
      };
      rank.communicator({.timeout = 60s});
      return "set up without the dead";
    });
    const auto reports = job.finish();
    INFO(describe(reports));
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const auto& failure = reports[static_cast<std::size_t>(rank)].failure;
      REQUIRE(failure);
      CHECK(failure->code == ErrorCode::peer_lost);
      CHECK(failure->failed_ranks == std::vector{victim});
    }
  }
}

TEST_CASE("a death during set-up is reported to a rank that opens its control links only later") {
  // The others may agree before its links are open. It must then receive the report, or take part
  // in a new agreement.
  for (const int size : {3, 4, 5}) {
    for (const int late : {0, 1}) {
      CAPTURE(size, late);
      const int victim = size - 1;
      Job job(size, [=](Rank& rank) -> std::string {
        rank.bootstrap().after = [&rank, victim, late](int exchange) {
          if (exchange != 3) return;
          if (rank.rank() == victim) ::_exit(3);
          if (rank.rank() == late) std::this_thread::sleep_for(300ms);
          rank.stamp();
        };
        auto& communicator = rank.communicator({.timeout = 5s});
        std::vector<float> data(1000);
        reduce_and_check(rank, communicator, data);
        return "reduced without the dead";
      });
      const auto reports = job.finish();
      const auto loss = check_survivors(reports, {victim}, job.stamped(late));
      CHECK(loss.failed_ranks == std::vector{victim});
    }
  }
}

TEST_CASE("a rank that waits for the goodbye of a dying rank stops waiting") {
  // A destructor that waits for its full limit takes 500 ms. One of a rank that the machine delays
  // may, too.
  constexpr int jobs = 8;
  int timed_out = 0;
  for (int i = 0; i < jobs; ++i) {
    Job job(6, [](Rank& rank) -> std::string {
      std::vector<float> data(100);
      reduce_and_check(rank, rank.communicator({.timeout = 8s}), data);
      rank.mark();
      if (rank.rank() == 2) std::this_thread::sleep_for(8s);
      return "done";
    });
    job.await_marks_of_all(1);
    std::this_thread::sleep_for(30ms);
    job.signal(2, SIGKILL);
    const auto reports = job.finish();
    INFO(describe(reports));
    Clock::duration longest{};
    for (int rank = 0; rank < job.size(); ++rank) {
      if (rank == 2) continue;
      const auto& report = reports[static_cast<std::size_t>(rank)];
      REQUIRE(report.finished);
      CHECK(report.text == "done");
      longest = std::max(longest, report.destruction);
    }
    timed_out += longest >= 500ms ? 1 : 0;
  }
  fmt::print("a death among goodbyes: {} of {} jobs had a destructor that waited in vain\n",
             timed_out, jobs);
  CHECK(timed_out <= jobs / 2);
}

}  // namespace tutti::test
