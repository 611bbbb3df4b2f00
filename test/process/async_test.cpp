// Non-blocking calls: several in flight, dropped, waited for in any order, and when the
// communicator is destroyed.
#include <sys/resource.h>

#include <deque>
#include <numeric>
#include <random>
#include <thread>

#include "support/catch.hpp"
#include "support/fork_ranks.hpp"
#include "support/sanitized.hpp"

namespace tutti::test {
namespace {

std::vector<int> numbers(std::size_t count, int rank, int round) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<int>(i % 1000) + 7 * rank + 3 * round;
  }
  return values;
}

/// Whether `values` is the sum of all ranks' numbers().
bool is_sum(const std::vector<int>& values, int size, int round) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int due = size * (static_cast<int>(i % 1000) + 3 * round) + 7 * (size * (size - 1) / 2);
    if (values[i] != due) return false;
  }
  return true;
}

/// Peak resident memory of this process in KiB.
long peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Sanitizers keep freed memory.
constexpr long max_growth_kib = is_sanitized ? 32768 : 4096;

struct InFlight {
  std::vector<int> data;
  Work work;
  int round = 0;
};

}  // namespace

TEST_CASE(
    "10,000 non-blocking all-reduces with up to 16 in flight are correct, and memory is constant") {
  constexpr int rounds = 10'000;
  const auto reports = run_ranks(
      4,
      [](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 100s});
        std::mt19937 random(2024);  // the same sizes on all ranks
        std::deque<InFlight> flight;
        long peak_at_a_fifth = 0;
        const auto retire = [&] {
          flight.front().work.wait();
          expect(is_sum(flight.front().data, 4, flight.front().round), "WRONG DATA");
          flight.pop_front();
        };
        for (int round = 0; round < rounds; ++round) {
          const auto count = std::size_t{1} << (random() % 14);
          const auto most = 1 + random() % 16;
          while (flight.size() >= most) retire();
          auto& next = flight.emplace_back(
              InFlight{numbers(count + random() % 3, rank.rank(), round), Work(), round});
          next.work = communicator.start_all_reduce(in_place, next.data, sum);
          if (round == rounds / 5) peak_at_a_fifth = peak_memory();
        }
        while (!flight.empty()) retire();
        const auto grown = peak_memory() - peak_at_a_fifth;
        expect(grown < max_growth_kib, "memory has grown by " + std::to_string(grown) + " KiB");
        communicator.finalize();
        return "done";
      },
      200s);
  CHECK(errors_of(reports) == "");
}

TEST_CASE("calls in flight may be waited for in any order, mixed with blocking calls") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    auto a = numbers(300'000, rank.rank(), 1);
    auto b = numbers(5, rank.rank(), 2);
    auto c = numbers(70'000, rank.rank(), 3);
    auto first = communicator.start_all_reduce(in_place, a, sum);
    auto second = communicator.start_all_reduce(in_place, b, sum);
    communicator.all_reduce(in_place, c, sum);
    expect(is_sum(c, 3, 3), "WRONG DATA in the call that blocks");
    second.wait();
    expect(is_sum(b, 3, 2), "WRONG DATA in the second");
    while (!first.test()) {
    }
    expect(is_sum(a, 3, 1), "WRONG DATA in the first");
    expect(first.test(), "a call that was waited for is not done");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("a call makes progress while its caller computes") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    auto data = numbers(2'000'000, rank.rank(), 1);
    communicator.barrier();
    auto work = communicator.start_all_reduce(in_place, data, sum);
    std::this_thread::sleep_for(1s * time_factor());  // the library sees it as computing
    const auto begin = Clock::now();
    expect(work.wait_for(0s), "it has not moved by itself");
    expect(Clock::now() - begin < 500ms, "looking took long");
    expect(is_sum(data, 2, 1), "WRONG DATA");
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("messages in flight: both directions at once, each with its own tag") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    const int peer = 1 - rank.rank();
    std::vector<std::vector<int>> in(8, std::vector<int>(50'000));
    std::vector<std::vector<int>> out;
    std::vector<Work> works;
    for (std::uint32_t tag = 0; tag < 8; ++tag) {
      out.push_back(numbers(50'000, rank.rank(), static_cast<int>(tag)));
      works.push_back(communicator.start_send(out.back(), peer, {.tag = tag}));
    }
    for (std::uint32_t tag = 8; tag-- > 0;) {
      works.push_back(communicator.start_recv(in[tag], peer, {.tag = tag}));
    }
    for (auto& work : works) work.wait();
    for (int tag = 0; tag < 8; ++tag) {
      expect(in[static_cast<std::size_t>(tag)] == numbers(50'000, peer, tag), "WRONG DATA");
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("wait_for() may time out without effect; after the call's own deadline it throws") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    std::vector<int> data(10, rank.rank());
    if (rank.rank() == 1) std::this_thread::sleep_for(500ms);
    auto work = communicator.start_all_reduce(in_place, data, sum);
    if (rank.rank() == 0) expect(!work.wait_for(100ms), "done without the other rank");
    work.wait();
    expect(data == std::vector<int>(10, 1), "WRONG DATA");
    if (rank.rank() == 1) {
      std::this_thread::sleep_for(2s);
      communicator.barrier();  // throws the other rank's error
      return "done";
    }
    auto late = communicator.start_all_reduce(in_place, data, sum, {.timeout = 500ms});
    late.wait();
    return "done";
  });
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::timeout);
    CHECK(report.failure->failed_ranks == std::vector<int>{1});
  }
}

TEST_CASE("wait_all and wait_any over calls of several kinds") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    auto data = numbers(50'000, rank.rank(), 1);
    int token = rank.rank();
    int from_before = -1;
    const int next = (rank.rank() + 1) % 3;
    const int before = (rank.rank() + 2) % 3;
    for (int round = 0; round < 20; ++round) {
      data = numbers(50'000, rank.rank(), round);
      std::vector<Work> works;
      works.push_back(communicator.start_all_reduce(in_place, data, sum));
      works.push_back(communicator.start_barrier());
      works.push_back(communicator.start_send(std::span(&token, 1), next));
      works.push_back(communicator.start_recv(std::span(&from_before, 1), before));
      if (round % 2 == 0) {
        wait_all(works);
      } else {
        std::vector<bool> seen(works.size());
        for (std::size_t i = 0; i < works.size(); ++i) {
          const auto done = wait_any(works);
          expect(done < works.size() && !seen[done], "not one that was active");
          seen[done] = true;
        }
      }
      expect(wait_any(works) == works.size(), "one is still active");
      expect(is_sum(data, 3, round) && from_before == before, "WRONG DATA");
    }
    communicator.finalize();
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("wait_any does not wait for a call whose peer is late") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    int late = 0;
    int soon = 0;
    const int value = 7;
    if (rank.rank() == 0) {
      communicator.send(std::span(&value, 1), 1, {.tag = 1});
      communicator.recv(std::span(&soon, 1), 1, {.tag = 2});
      communicator.send(std::span(&value, 1), 1, {.tag = 0});
      return "done";
    }
    std::vector<Work> works;
    works.push_back(communicator.start_recv(std::span(&late, 1), 0, {.tag = 0}));
    works.push_back(communicator.start_recv(std::span(&soon, 1), 0, {.tag = 1}));
    expect(wait_any(works) == 1 && soon == 7, "not the one that came");
    // Rank 0 sends the second message only now.
    communicator.send(std::span(&value, 1), 0, {.tag = 2});
    expect(wait_any(works) == 0 && late == 7, "not the other");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("wait_all and wait_any end at the deadline of a call without a counterpart") {
  for (const bool any : {false, true}) {
    const auto reports = run_ranks(2, [any](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 20s});
      communicator.barrier();
      int value = 0;
      if (rank.rank() == 0) {
        std::vector<Work> works;
        works.push_back(communicator.start_recv(std::span(&value, 1), 1, {.timeout = 300ms}));
        const auto begin = Clock::now();
        try {
          if (any) static_cast<void>(wait_any(works));
          if (!any) wait_all(works);
          expect(false, "nothing was thrown");
        } catch (const Error& error) {
          expect(error.code() == ErrorCode::timeout, error.sentence());
        }
        expect(Clock::now() - begin >= 300ms, "too early");
        expect(!works[0].is_active(), "still active");
        return "done";
      }
      std::this_thread::sleep_for(1s);
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("a call continues if its Work is dropped") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    auto data = numbers(200'000, rank.rank(), 1);
    static_cast<void>(communicator.start_all_reduce(in_place, data, sum));
    communicator.finalize();
    expect(is_sum(data, 3, 1), "WRONG DATA after the end");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

TEST_CASE("the error of a call that was dropped is thrown by the next") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    std::vector<int> data(10);
    const auto op = rank.rank() == 0 ? sum : max;
    static_cast<void>(communicator.start_all_reduce(in_place, data, op));
    std::this_thread::sleep_for(500ms);
    communicator.barrier();
    return "done";
  });
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::mismatch);
    CHECK(report.failure->sentence.find("sum") != std::string::npos);
    CHECK(report.failure->sentence.find("max") != std::string::npos);
  }
}

TEST_CASE("a communicator destroyed with calls in flight: all ranks report it, and none hangs") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    std::vector<int> data(1'000'000, 1);
    Work orphan;
    auto& communicator = rank.communicator({.timeout = 20s});
    communicator.barrier();
    if (rank.rank() == 0) {
      orphan = communicator.start_all_reduce(in_place, data, sum);
      const auto begin = Clock::now();
      rank.destroy_communicators();
      expect(Clock::now() - begin < 4s, "the destructor took long");
      orphan.wait();  // throws
      return "done";
    }
    std::this_thread::sleep_for(3s);
    communicator.all_reduce(in_place, data, sum);
    return "done";
  });
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::aborted);
    CHECK(report.failure->failed_ranks == std::vector<int>{0});
    CHECK(report.failure->sentence.find("all_reduce of 1000000 i32") != std::string::npos);
  }
}

TEST_CASE("a communicator destroyed with calls that end within a second waits for them") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto data = numbers(100'000, rank.rank(), 1);
    auto work = rank.communicator({.timeout = 20s}).start_all_reduce(in_place, data, sum);
    rank.destroy_communicators();
    work.wait();
    expect(is_sum(data, 3, 1), "WRONG DATA");
    return "done";
  });
  CHECK(errors_of(reports) == "");
}

}  // namespace tutti::test
