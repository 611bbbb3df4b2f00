// abort() ends the calls of all ranks with its reason.
#include <fmt/format.h>

#include <thread>

#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

const std::string reason = "the input file is empty, says rank with the answer 42";

void check_aborted(const std::vector<Report>& reports, int failed_rank) {
  INFO(describe(reports));
  for (int rank = 0; rank < static_cast<int>(reports.size()); ++rank) {
    CAPTURE(rank);
    const auto& report = reports[static_cast<std::size_t>(rank)];
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::aborted);
    CHECK(report.failure->failed_ranks == std::vector{failed_rank});
    CHECK(report.failure->sentence.find(reason) != std::string::npos);
    CHECK(report.failure->sentence.find(fmt::format("rank {} (", failed_rank)) !=
          std::string::npos);
    CHECK(report.destruction < 1500ms * time_factor());
  }
}

}  // namespace

TEST_CASE("an abort reaches ranks within a call, and the aborting rank's own next call") {
  for (const int size : {1, 2, 3, 5}) {
    for (const int failed_rank : {0, size - 1}) {
      CAPTURE(size, failed_rank);
      const auto reports = run_ranks(size, [failed_rank](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 10s});
        std::vector<float> data(1000);
        for (int i = 0; i < 5; ++i) reduce_and_check(rank, communicator, data);
        const auto begin = Clock::now();
        if (rank.rank() == failed_rank) communicator.abort(reason);
        try {
          reduce_and_check(rank, communicator, data);
        } catch (const Error&) {
          expect(Clock::now() - begin < 1s * time_factor(), "the abort took long");
          throw;
        }
        return "reduced all the same";
      });
      check_aborted(reports, failed_rank);
    }
  }
}

TEST_CASE("an abort reaches ranks outside any call at their next one") {
  Job job(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    communicator.barrier();
    if (rank.rank() == 1) {
      communicator.abort(reason);
      rank.mark();
    }
    rank.wait_for_release();
    communicator.barrier();
    return "passed";
  });
  job.await_marks(1, 1);
  std::this_thread::sleep_for(100ms);
  job.release();
  check_aborted(job.finish(), 1);
}

TEST_CASE("an abort reaches a rank that waits for a message and one that sends a large one") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    communicator.barrier();
    std::vector<float> data(std::size_t{1} << 20);
    if (rank.rank() == 0) communicator.recv(std::span(data), 1);
    if (rank.rank() == 2) communicator.send(std::span(data), 3);
    std::this_thread::sleep_for(100ms);
    if (rank.rank() == 1) communicator.abort(reason);
    communicator.barrier();
    return "passed";
  });
  check_aborted(reports, 1);
}

TEST_CASE("after an abort a rank receives nothing any more, not even what has come before") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    int value = rank.rank();
    // The first message of a link opens the connection, so it uses another code path.
    for (int i = 0; i < 3; ++i) {
      if (rank.rank() == 1) communicator.send(std::span(&value, 1), 0);
      if (rank.rank() == 0) communicator.recv(std::span(&value, 1), 1);
    }
    if (rank.rank() == 1) communicator.send(std::span(&value, 1), 0);
    communicator.barrier();
    if (rank.rank() == 0) communicator.abort(reason);
    communicator.recv(std::span(&value, 1), 1 - rank.rank());
    return "received all the same";
  });
  check_aborted(reports, 0);
}

TEST_CASE("two ranks that abort at once: all ranks report the same") {
  const auto reports = run_ranks(4, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    communicator.barrier();
    if (rank.rank() % 2 == 1) communicator.abort(reason);
    communicator.barrier();
    return "passed";
  });
  INFO(describe(reports));
  REQUIRE(reports[0].failure);
  const auto failed_ranks = reports[0].failure->failed_ranks;
  REQUIRE(failed_ranks.size() == 1);
  CHECK(failed_ranks[0] % 2 == 1);
  check_aborted(reports, failed_ranks[0]);
}

}  // namespace tutti::test
