// Deadlocks of messages, and messages without a receive.
#include <fmt/format.h>

#include <numeric>
#include <thread>

#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

constexpr std::size_t large = std::size_t{1} << 20;

void check_deadlock(const std::vector<Report>& reports, const std::vector<int>& cycle) {
  INFO(describe(reports));
  int speakers = 0;
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::timeout);
    CHECK(report.failure->failed_ranks == cycle);
    CHECK(report.failure->sentence.find("deadlock: ranks wait for each other") !=
          std::string::npos);
    for (const int rank : cycle) {
      CHECK(report.failure->sentence.find(fmt::format("rank {} (", rank)) != std::string::npos);
    }
    speakers += report.failure->speaks ? 1 : 0;
  }
  CHECK(speakers == 1);
}

}  // namespace

TEST_CASE("a cycle of sends is reported at the deadline") {
  for (const int size : {2, 3, 5}) {
    CAPTURE(size);
    check_deadlock(run_ranks(size,
                             [size](Rank& rank) -> std::string {
                               auto& communicator = rank.communicator({.timeout = 1s});
                               std::vector<float> data(large);
                               communicator.send(std::span(data), (rank.rank() + 1) % size);
                               communicator.recv(std::span(data), (rank.rank() + size - 1) % size);
                               return "passed";
                             }),
                   [size] {
                     std::vector<int> all(static_cast<std::size_t>(size));
                     std::iota(all.begin(), all.end(), 0);
                     return all;
                   }());
  }
}

TEST_CASE("two ranks that both receive first are a cycle, without the third rank") {
  check_deadlock(run_ranks(3,
                           [](Rank& rank) -> std::string {
                             auto& communicator = rank.communicator({.timeout = 1s});
                             std::vector<float> data(10);
                             if (rank.rank() > 0) {
                               communicator.recv(std::span(data), 3 - rank.rank());
                               communicator.send(std::span(data), 3 - rank.rank());
                             }
                             communicator.barrier({.timeout = 5s});
                             return "passed";
                           }),
                 {1, 2});
}

TEST_CASE("a message without a receive is reported by finalize()") {
  for (const int size : {2, 4}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [size](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 10s});
      std::vector<float> data(10);
      for (int i = 0; i < 3; ++i) {
        if (rank.rank() == 0) communicator.send(std::span(data), size - 1, {.tag = 7});
        if (rank.rank() == size - 1 && i > 0) communicator.recv(std::span(data), 0, {.tag = 7});
      }
      communicator.finalize();
      return "nobody noticed";
    });
    INFO(describe(reports));
    for (const auto& report : reports) {
      REQUIRE(report.failure);
      CHECK(report.failure->code == ErrorCode::mismatch);
      CHECK(report.failure->failed_ranks == std::vector{0, size - 1});
      CHECK(report.failure->sentence.find("has sent 3 messages to rank") != std::string::npos);
      CHECK(report.failure->sentence.find("received 2 of them") != std::string::npos);
    }
  }
}

}  // namespace tutti::test
