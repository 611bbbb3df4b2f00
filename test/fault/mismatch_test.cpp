// Mismatched calls: every rank reports both calls, in the call, in the next one or in finalize().
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <thread>

#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

using Action = std::function<void(Communicator&)>;

struct Deviation {
  const char* name;
  Action most;          ///< the call of all other ranks
  Action one;           ///< the call of one rank
  std::string of_most;  ///< how the sentence must describe the calls
  std::string of_one;
};

constexpr std::size_t many = 1 << 20;

Action all_reduce(std::size_t count, Operator op = sum) {
  return [=](Communicator& communicator) {
    std::vector<float> data(count);
    communicator.all_reduce(in_place, std::span(data), op);
  };
}

template <class T>
Action all_reduce_of(std::size_t count) {
  return [=](Communicator& communicator) {
    std::vector<T> data(count);
    communicator.all_reduce(in_place, std::span(data), sum);
  };
}

Action broadcast(std::size_t count, int root) {
  return [=](Communicator& communicator) {
    std::vector<float> data(count);
    communicator.broadcast(std::span(data), root);
  };
}

Action fan_out(std::size_t count, int root) {
  return [=](Communicator& communicator) {
    std::vector<float> data(count);
    communicator.fan_out(std::span(data), root);
  };
}

Action barrier() {
  return [](Communicator& communicator) { communicator.barrier(); };
}

std::vector<Deviation> deviations() {
  return {
      {"counts", all_reduce(409600), all_reduce(409598), "all_reduce of 409600 f32, sum",
       "all_reduce of 409598 f32, sum"},
      {"counts, small", all_reduce(4), all_reduce(5), "all_reduce of 4 f32, sum",
       "all_reduce of 5 f32, sum"},
      {"counts, nothing", all_reduce(4), all_reduce(0), "all_reduce of 4 f32, sum",
       "all_reduce of 0 f32, sum"},
      {"counts, nothing of much", all_reduce(many), all_reduce(0), "all_reduce of 1048576 f32, sum",
       "all_reduce of 0 f32, sum"},
      {"types", all_reduce(4000), all_reduce_of<std::int8_t>(4000), "all_reduce of 4000 f32, sum",
       "all_reduce of 4000 i8, sum"},
      {"types of the same bytes", all_reduce(many), all_reduce_of<std::int32_t>(many),
       "all_reduce of 1048576 f32, sum", "all_reduce of 1048576 i32, sum"},
      {"operators", all_reduce(100), all_reduce(100, max), "all_reduce of 100 f32, sum",
       "all_reduce of 100 f32, max"},
      {"operators, large", all_reduce(many), all_reduce(many, max),
       "all_reduce of 1048576 f32, sum", "all_reduce of 1048576 f32, max"},
      {"roots, 4 B", broadcast(1, 0), broadcast(1, 1), "broadcast of 1 f32 from rank 0",
       "broadcast of 1 f32 from rank 1"},
      {"roots, 4 MiB", broadcast(many, 0), broadcast(many, 1),
       "broadcast of 1048576 f32 from rank 0", "broadcast of 1048576 f32 from rank 1"},
      {"roots of fan_out, 4 B", fan_out(1, 1), fan_out(1, 0), "fan_out of 1 f32 from rank 1",
       "fan_out of 1 f32 from rank 0"},
      {"counts of fan_out", fan_out(100, 0), fan_out(99, 0), "fan_out of 100 f32 from rank 0",
       "fan_out of 99 f32 from rank 0"},
      {"broadcast and fan_out", broadcast(4, 0), fan_out(4, 0), "broadcast of 4 f32 from rank 0",
       "fan_out of 4 f32 from rank 0"},
      {"broadcast and barrier", broadcast(4, 0), barrier(), "broadcast of 4 f32 from rank 0",
       "barrier"},
      {"broadcast of nothing and barrier", broadcast(0, 0), barrier(),
       "broadcast of 0 f32 from rank 0", "barrier"},
      {"one call less", barrier(), [](Communicator&) {}, "barrier", "finalize"},
  };
}

/// Checks that every rank reports the same mismatch with both descriptions.
void check_reported(const std::vector<Report>& reports, const std::string& first,
                    const std::string& second) {
  INFO(describe(reports));
  int speakers = 0;
  CHECK(std::all_of(reports.begin(), reports.end(),
                    [](const Report& report) { return report.failure.has_value(); }));
  for (const auto& report : reports) {
    if (!report.failure || !reports.front().failure) return;
    CHECK(report.failure->code == ErrorCode::mismatch);
    CHECK(report.failure->sentence.find(first) != std::string::npos);
    CHECK(report.failure->sentence.find(second) != std::string::npos);
    CHECK(report.failure->sentence == reports.front().failure->sentence);
    CHECK(report.failure->failed_ranks.size() == 2);
    CHECK(report.destruction < 1500ms * time_factor());
    speakers += report.failure->speaks ? 1 : 0;
  }
  CHECK(speakers == 1);
}

}  // namespace

TEST_CASE("one rank that makes another collective call") {
  for (const auto& deviation : deviations()) {
    Clock::duration slowest{};
    for (const int size : {2, 3, 4}) {
      for (int deviant = 0; deviant < size; ++deviant) {
        CAPTURE(deviation.name, size, deviant);
        const auto reports = run_ranks(
            size,
            [&](Rank& rank) -> std::string {
              auto& communicator = rank.communicator({.timeout = 10s});
              communicator.barrier();
              const auto begin = Clock::now();
              try {
                (rank.rank() == deviant ? deviation.one : deviation.most)(communicator);
                communicator.finalize();
              } catch (const Error& error) {
                // Detected by comparing calls, not by the deadline.
                expect(Clock::now() - begin < 2s * time_factor() ||
                           error.code() != ErrorCode::mismatch,
                       "it took long: " + error.sentence());
                throw;
              }
              return "nobody noticed";
            },
            20s);
        check_reported(reports, deviation.of_most, deviation.of_one);
        for (const auto& report : reports) slowest = std::max(slowest, report.destruction);
      }
    }
  }
}

TEST_CASE("a deviation is found at the next call even if the calls themselves end well") {
  // Both ranks only send, and small messages are buffered.
  for (const int size : {2, 3}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 10s});
      broadcast(1, rank.rank() == 1 ? 1 : 0)(communicator);
      for (int i = 0; i < 3; ++i) all_reduce(1)(communicator);
      return "nobody noticed";
    });
    check_reported(reports, "broadcast of 1 f32 from rank 0", "broadcast of 1 f32 from rank 1");
  }
}

TEST_CASE("a send and a recv that differ") {
  struct Pair {
    const char* name;
    std::size_t sent;
    std::size_t received;
  };
  constexpr std::array<Pair, 8> pairs{{{"shorter", 100, 99},
                                       {"longer", 100, 101},
                                       {"shorter, large", many, many - 1},
                                       {"longer, large", many, many + 1},
                                       {"small and large", 10, many},
                                       {"large and small", many, 10},
                                       {"nothing sent", 0, 10},
                                       {"nothing received", 10, 0}}};
  for (const auto& pair : pairs) {
    for (const int size : {2, 3, 4}) {
      for (const bool sender_first : {true, false}) {
        CAPTURE(pair.name, size, sender_first);
        const int from = size - 1;
        const auto reports = run_ranks(size, [&](Rank& rank) -> std::string {
          auto& communicator = rank.communicator({.timeout = 10s});
          communicator.barrier();
          if (rank.rank() == from) {
            if (!sender_first) std::this_thread::sleep_for(50ms);
            std::vector<float> data(pair.sent);
            communicator.send(std::span(data), 0);
          } else if (rank.rank() == 0) {
            if (sender_first) std::this_thread::sleep_for(50ms);
            std::vector<float> data(pair.received);
            communicator.recv(std::span(data), from);
          }
          communicator.finalize();
          return "nobody noticed";
        });
        check_reported(reports, fmt::format("send of {} f32 to rank 0", pair.sent),
                       fmt::format("recv of {} f32 from rank {}", pair.received, from));
      }
    }
  }
}

TEST_CASE("a send and a recv of different types") {
  for (const std::size_t count : {std::size_t{10}, many}) {
    const auto reports = run_ranks(2, [count](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 10s});
      std::vector<float> floats(count);
      std::vector<std::int32_t> whole(count);
      if (rank.rank() == 0) communicator.send(std::span(floats), 1);
      if (rank.rank() == 1) communicator.recv(std::span(whole), 0);
      communicator.finalize();
      return "nobody noticed";
    });
    check_reported(reports, fmt::format("send of {} f32 to rank 1", count),
                   fmt::format("recv of {} i32 from rank 0", count));
  }
}

TEST_CASE("ranks that name different algorithms for one call get a mismatch error") {
  // Both calls move the same number of bytes between two ranks, so only the check detects the
  // mismatch.
  for (const int size : {2, 3}) {
    CAPTURE(size);
    const auto reports = run_ranks(size, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 3s});
      std::vector<float> data(1000);
      reduce_and_check(rank, communicator, data,
                       {.algorithm = rank.rank() == 1 ? "ring" : "recursive_doubling"});
      communicator.finalize();
      return "nobody noticed";
    });
    INFO(describe(reports));
    for (const auto& report : reports) {
      CHECK(report.failure);
      if (!report.failure) continue;
      CHECK(report.failure->code == ErrorCode::mismatch);
      CHECK(report.failure->sentence.find("ring") != std::string::npos);
      CHECK(report.failure->sentence.find("recursive_doubling") != std::string::npos);
    }
  }
}

TEST_CASE("a difference long ago is still found at the end") {
  // More calls than a rank's history keeps.
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    broadcast(1, rank.rank())(communicator);
    // Both are roots and receive nothing from each other.
    for (int i = 0; i < 300; ++i) broadcast(1, 0)(communicator);
    communicator.finalize();
    return "nobody noticed";
  });
  INFO(describe(reports));
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
  }
}

}  // namespace tutti::test
