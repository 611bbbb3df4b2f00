// Jobs in which one rank can't create threads.
#include <csignal>
#include <optional>
#include <string>

#include "support/catch.hpp"
#include "support/fork_ranks.hpp"
#include "support/refused_threads.hpp"

namespace tutti::test {
namespace {

template <class Action>
std::optional<Error> failure_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// Checks that every report says that `rank` can't create a thread.
void check_failures(const std::vector<Report>& reports, int rank, const std::string& purpose) {
  INFO(describe(reports));
  int speaking = 0;
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::system);
    CHECK(report.failure->failed_ranks == std::vector{rank});
    CHECK(report.failure->sentence.find("rank " + std::to_string(rank) + " (") == 0);
    CHECK(report.failure->sentence.find("can't start a thread " + purpose +
                                        ": Resource temporarily unavailable (errno 11): ") !=
          std::string::npos);
    CHECK(report.failure->sentence.find("raise the limit") != std::string::npos);
    speaking += report.failure->speaks ? 1 : 0;
  }
  CHECK(speaking == 1);
}

}  // namespace

TEST_CASE("a rank that can start no thread ends the set-up of all, and all name it") {
  if (!can_refuse_threads()) return;
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    if (rank.rank() == 1) refuse_threads();
    rank.communicator({.timeout = 20s});
    return "set up";
  });
  check_failures(reports, 1, "for the control links");
}

TEST_CASE("a rank that can start no thread for a non-blocking call ends the job, the same on all") {
  if (!can_refuse_threads()) return;
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    std::vector<int> data(1000, 1);
    communicator.all_reduce(in_place, std::span(data), sum);
    if (rank.rank() == 1) refuse_threads();
    const auto first =
        failure_of([&] { communicator.start_all_reduce(in_place, std::span(data), sum).wait(); });
    expect(first.has_value(), "the started call went well");
    // Blocking calls throw it too.
    communicator.barrier();
    return "went on";
  });
  check_failures(reports, 1, "that advances non-blocking calls");
}

TEST_CASE("a rank that can start no thread after a loss ends shrink() on all, and all name it") {
  if (!can_refuse_threads()) return;
  // The lowest rank coordinates the agreement; the highest dials no rank.
  for (const int without : {0, 1, 2}) {
    CAPTURE(without);
    auto reports = run_ranks(4, [without](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 20s});
      communicator.barrier();
      if (rank.rank() == 3) ::raise(SIGKILL);
      const auto loss = failure_of([&] { communicator.barrier(); });
      expect(loss && loss->code() == ErrorCode::peer_lost, "rank 3 is not lost");
      if (rank.rank() == without) refuse_threads();
      const auto first = failure_of([&] { (void)communicator.shrink(); });
      expect(first.has_value(), "there is a communicator of the survivors");
      const auto second = failure_of([&] { (void)communicator.shrink(); });
      expect(second && second->sentence().find(first->sentence()) != std::string::npos,
             "shrink() ended in two ways");
      throw Error(*first);
    });
    REQUIRE(reports.size() == 4);
    reports.pop_back();
    check_failures(reports, without, "for the control links");
  }
}

TEST_CASE("blocking calls and the end of the job need no thread after set-up") {
  if (!can_refuse_threads()) return;
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    if (rank.rank() == 1) refuse_threads();
    std::vector<int> data(100'000, 1);
    communicator.all_reduce(in_place, std::span(data), sum);
    communicator.duplicate().barrier();
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
