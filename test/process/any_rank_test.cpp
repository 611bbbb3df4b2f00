// recv from any rank: order, ranks that leave, mismatches.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "numbered_messages.hpp"
#include "support/catch.hpp"

namespace tutti::test {

TEST_CASE("a receive from any rank takes each message once, those of a sender in order") {
  for (const int size : {2, 3, 6}) {
    for (const bool started : {false, true}) {
      CAPTURE(size, started);
      const auto reports = run_ranks(size, [&](Rank& rank) -> std::string {
        auto& communicator = rank.communicator();
        constexpr int rounds = 20;
        // Without bytes, eager, and with rendezvous.
        constexpr std::array<std::size_t, 3> counts{0, 1000, 100'000};
        for (const auto count : counts) {
          const auto tag = static_cast<std::uint32_t>(count % 7);
          if (rank.rank() != 0) {
            for (int i = 0; i < rounds; ++i) {
              std::vector<std::uint8_t> data(count,
                                             static_cast<std::uint8_t>(10 * rank.rank() + i));
              communicator.send(data, 0, {.tag = tag});
            }
            continue;
          }
          std::vector<int> seen(static_cast<std::size_t>(size));
          for (int i = 0; i < rounds * (size - 1); ++i) {
            std::vector<std::uint8_t> data(count);
            int from = -1;
            if (started) {
              auto work = communicator.start_recv(data, any_rank, {.tag = tag});
              work.wait();
              from = work.source();
            } else {
              from = communicator.recv(data, any_rank, {.tag = tag});
            }
            expect(from > 0 && from < size, fmt::format("source {}", from));
            const auto number = seen[static_cast<std::size_t>(from)]++;
            const auto due = static_cast<std::uint8_t>(10 * from + number);
            expect(std::all_of(data.begin(), data.end(), [&](auto byte) { return byte == due; }),
                   fmt::format("message {} of rank {}", number, from));
          }
          for (int from = 1; from < size; ++from) {
            expect(seen[static_cast<std::size_t>(from)] == rounds, "each message once");
          }
        }
        // Then again from a named rank.
        if (rank.rank() == 1) send(communicator, 0, 10, 5);
        if (rank.rank() == 0) recv(communicator, 1, 10, 5);
        communicator.finalize();
        return "done";
      });
      REQUIRE(errors_of(reports) == "");
    }
  }
}

TEST_CASE("receives from any rank that are in flight are served in their order") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator();
    if (rank.rank() == 0) {
      std::array<std::array<int, 2>, 4> data{};
      std::vector<Work> works;
      for (auto& one : data) works.push_back(communicator.start_recv(one, any_rank));
      std::array<int, 2> refused{};
      try {
        communicator.recv(refused, 1);
        expect(false, "a receive from a named rank was accepted");
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::usage &&
                   error.sentence().find("any rank with tag 0") != std::string::npos,
               error.sentence());
      }
      communicator.barrier();
      wait_all(works);
      std::array<int, 3> last{-1, -1, -1};
      for (std::size_t i = 0; i < data.size(); ++i) {
        const auto from = static_cast<std::size_t>(works[i].source());
        expect(from == 1 || from == 2, fmt::format("source {}", from));
        expect(data[i][0] == static_cast<int>(from), "another sender's data");
        expect(data[i][1] == last[from] + 1, "out of order");
        last[from] = data[i][1];
      }
    } else {
      communicator.barrier();
      for (int i = 0; i < 2; ++i) {
        const std::array data{rank.rank(), i};
        communicator.send(data, 0);
      }
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a receive from any rank does not need those that have left") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    communicator.barrier();
    if (rank.rank() == 1) return "done";
    if (rank.rank() == 2) {
      std::this_thread::sleep_for(500ms);
      send(communicator, 0, 100, 1);
      return "done";
    }
    std::vector<std::uint8_t> data(100);
    expect(communicator.recv(data, any_rank) == 2, "the sender");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a receive from any rank that nobody serves ends with an error that says so") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 1s});
    communicator.barrier();
    std::vector<std::uint8_t> data(100);
    if (rank.rank() == 0) communicator.recv(data, any_rank);
    std::this_thread::sleep_for(3s);
    communicator.barrier();
    return "nobody noticed";
  });
  for (const auto& report : reports) {
    INFO(describe(reports));
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::timeout);
    CHECK(report.failure->sentence.find("recv of 100 u8 from any rank") != std::string::npos);
  }
}

TEST_CASE("a receive from any rank of another count is a mismatch") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    if (rank.rank() == 1) send(communicator, 0, 100, 1);
    std::vector<std::uint8_t> data(99);
    if (rank.rank() == 0) communicator.recv(data, any_rank);
    communicator.finalize();
    return "nobody noticed";
  });
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
  }
}

}  // namespace tutti::test
