// A signal every millisecond, whose handler does not restart system calls.
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>

#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

volatile std::sig_atomic_t caught = 0;

void start_storm() {
  struct sigaction action {};
  action.sa_handler = [](int) { caught = caught + 1; };
  action.sa_flags = 0;  // no SA_RESTART: interrupted calls return EINTR
  ::sigaction(SIGALRM, &action, nullptr);
  itimerval each{};
  each.it_interval.tv_usec = 1000;
  each.it_value.tv_usec = 1000;
  ::setitimer(ITIMER_REAL, &each, nullptr);
}

void stop_storm() {
  const itimerval none{};
  ::setitimer(ITIMER_REAL, &none, nullptr);
}

}  // namespace

TEST_CASE("interrupted system calls do no harm, from set-up to the end") {
  struct Way {
    int size;
    std::size_t count;
    bool shared;
  };
  constexpr auto large = std::size_t{1} << 20;
  for (const auto& [size, count, shared] :
       {Way{2, 10, true}, Way{4, large, true}, Way{2, large, false}, Way{4, 10, false},
        Way{4, large, false}}) {
    CAPTURE(size, count, shared);
    const bool over_tcp = !shared;
    const auto elements = count;
    const auto reports = run_ranks(size, [elements, over_tcp](Rank& rank) -> std::string {
      if (over_tcp) ::setenv("TUTTI_SHARED_MEMORY", "0", 1);
      start_storm();
      auto& communicator = rank.communicator();
      std::vector<float> data(elements);
      std::vector<float> other(elements);
      const auto end = Clock::now() + 1200ms;
      std::array<std::int32_t, 1> enough{0};
      for (int round = 0; enough[0] == 0; ++round) {
        reduce_and_check(rank, communicator, data);
        communicator.barrier();
        std::fill(data.begin(), data.end(), static_cast<float>(rank.rank() + round));
        const int from = (rank.rank() + rank.size() - 1) % rank.size();
        communicator.send_recv(std::span(data), (rank.rank() + 1) % rank.size(), std::span(other),
                               from);
        const auto due = static_cast<float>(from + round);
        for (const auto value : other) expect(value == due, "WRONG DATA after send_recv");
        enough[0] = Clock::now() > end ? 1 : 0;
        communicator.all_reduce(in_place, std::span(enough), max);
      }
      communicator.finalize();
      rank.destroy_communicators();
      stop_storm();
      expect(caught > 100, "there was no storm");
      return "done";
    });
    CHECK(errors_of(reports) == "");
  }
}

TEST_CASE("a rank that sleeps in the kernel under the storm still wakes up at its deadline") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 1s});
    start_storm();
    const auto begin = Clock::now();
    std::vector<float> data(10);
    try {
      if (rank.rank() == 0) communicator.recv(std::span(data), 1);
      if (rank.rank() == 1) {
        while (Clock::now() < begin + 2s) ::usleep(10000);
        communicator.barrier();
      }
    } catch (const Error& error) {
      stop_storm();
      expect(Clock::now() - begin < 3s * time_factor(), "late: " + error.sentence());
      throw;
    }
    return "passed";
  });
  INFO(describe(reports));
  for (const auto& report : reports) {
    REQUIRE(report.failure);
    CHECK(report.failure->code == ErrorCode::timeout);
  }
}

}  // namespace tutti::test
