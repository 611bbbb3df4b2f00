// Death of ranks: every survivor reports the same failed ranks within the promised time.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "support/catch.hpp"
#include "support/own_kernel.hpp"
#include "survivors.hpp"

namespace tutti::test {
namespace {

/// The first half of the ranks is on one host, the others on another.
void use_two_hosts(const Rank& rank) {
  ::setenv("TUTTI_HOST_ID", rank.rank() < rank.size() / 2 ? "first" : "second", 1);
}

/// Kills `victims` in an all_reduce loop, at a random time after the first rounds.
LossReport kill_in_loop(int size, std::size_t count, const std::vector<int>& victims, int signal,
                        std::mt19937& random, int hosts = 1) {
  Job job(size, [count, hosts](Rank& rank) -> std::string {
    if (hosts == 2) use_two_hosts(rank);
    reduce_forever(rank, count);
  });
  job.await_marks_of_all(3);
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
  const auto since = job.signal(victims.front(), signal);
  for (std::size_t i = 1; i < victims.size(); ++i) job.signal(victims[i], signal);
  return check_survivors(job.finish(), {victims.begin(), victims.end()}, since);
}

}  // namespace

TEST_CASE("a rank killed in an all_reduce is named by every survivor within a second") {
  std::mt19937 random(20240607);  // NOLINT: the same moments in each run, as far as time allows
  for (const std::size_t count : {std::size_t{4}, std::size_t{1} << 20}) {
    LossReport worst;
    for (const int size : {2, 3, 4, 5, 8}) {
      for (int round = 0; round < 4; ++round) {
        const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
        CAPTURE(size, count, round, victim);
        const auto loss = kill_in_loop(size, count, {victim}, SIGKILL, random);
        CHECK(loss.failed_ranks == std::vector{victim});
        keep_worst(worst, loss);
      }
    }
    print(count == 4 ? "kill, 16 B" : "kill, 4 MiB", worst);
  }
}

TEST_CASE("a rank killed while others read its memory, or it theirs, is named by every survivor") {
  std::mt19937 random(29);  // NOLINT
  LossReport worst;
  for (const auto loop : {gather_forever, send_around_forever}) {
    for (const int size : {2, 4}) {
      for (int round = 0; round < 8; ++round) {
        const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
        CAPTURE(loop == gather_forever, size, round, victim);
        ::setenv("TUTTI_SINGLE_COPY", "always", 1);
        Job job(size, [loop](Rank& rank) -> std::string {
          loop(rank, std::size_t{1} << 20);
          return {};
        });
        ::unsetenv("TUTTI_SINGLE_COPY");
        job.await_marks_of_all(3);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
        const auto since = job.signal(victim, SIGKILL);
        const auto loss = check_survivors(job.finish(), {victim}, since);
        CHECK(loss.failed_ranks == std::vector{victim});
        keep_worst(worst, loss);
      }
    }
  }
  print("kill, 4 MiB by single copy", worst);
}

TEST_CASE("a rank killed in a call between hosts that share memory is named by every survivor") {
  std::mt19937 random(28);  // NOLINT
  LossReport worst;
  for (const std::size_t count : {std::size_t{4}, std::size_t{1} << 18}) {
    for (const int size : {4, 6}) {
      for (int round = 0; round < 3; ++round) {
        const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
        CAPTURE(size, count, round, victim);
        const auto loss = kill_in_loop(size, count, {victim}, SIGKILL, random, 2);
        CHECK(loss.failed_ranks == std::vector{victim});
        keep_worst(worst, loss);
      }
    }
  }
  print("kill between two hosts", worst);
}

TEST_CASE("a rank that dies after it has published its data is named, also by a late reader") {
  constexpr int victim = 1;
  Job job(4, [](Rank& rank) -> std::string {
    use_two_hosts(rank);
    auto& communicator = rank.communicator();
    std::vector<float> data(100);
    reduce_and_check(rank, communicator, data, {.algorithm = "leaders"});
    rank.mark();
    if (rank.rank() == 0) rank.wait_for_release();
    while (true) reduce_and_check(rank, communicator, data, {.algorithm = "leaders"});
  });
  job.await_marks_of_all(1);
  // The victim publishes, and waits for the leader, rank 0.
  std::this_thread::sleep_for(300ms);
  const auto since = job.signal(victim, SIGKILL);
  std::this_thread::sleep_for(100ms);
  job.release();
  CHECK(check_survivors(job.finish(), {victim}, since).failed_ranks == std::vector{victim});
}

TEST_CASE("the death of rank 0, which coordinates the agreement, is reported like any other") {
  std::mt19937 random(7);  // NOLINT
  LossReport worst;
  for (const int size : {2, 3, 5, 8}) {
    for (const std::size_t count : {std::size_t{1000}, std::size_t{1} << 20}) {
      CAPTURE(size, count);
      const auto loss = kill_in_loop(size, count, {0}, SIGKILL, random);
      CHECK(loss.failed_ranks == std::vector{0});
      keep_worst(worst, loss);
    }
  }
  print("kill of rank 0", worst);
}

TEST_CASE("two deaths at once are one set, the same everywhere") {
  std::mt19937 random(11);  // NOLINT
  LossReport worst;
  int both = 0;
  int runs = 0;
  for (const int size : {3, 4, 5, 8}) {
    for (int round = 0; round < 6; ++round) {
      const int first = round == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(size));
      const int second =
          (first + 1 + static_cast<int>(random() % static_cast<unsigned>(size - 1))) % size;
      CAPTURE(size, round, first, second);
      const std::size_t count = round % 2 == 0 ? 4 : std::size_t{1} << 18;
      const auto loss = kill_in_loop(size, count, {first, second}, SIGKILL, random);
      ++runs;
      both += loss.failed_ranks.size() == 2 ? 1 : 0;
      keep_worst(worst, loss);
    }
  }
  print("two kills", worst);
  fmt::print("two kills: both named in {} of {} runs\n", both, runs);
}

TEST_CASE("a second death after the agreed failure neither changes nor delays the report") {
  Job job(4, [](Rank& rank) -> std::string { reduce_forever(rank, 1000); });
  job.await_marks_of_all(3);
  const auto since = job.signal(1, SIGKILL);
  std::this_thread::sleep_for(30ms);
  job.signal(2, SIGKILL);
  const auto reports = job.finish();
  const auto& third = reports[2];
  std::set<int> dead{1};
  if (!third.failure) dead.insert(2);
  check_survivors(reports, dead, since);
}

TEST_CASE("a death is reported although the rank that speaks for the job is stopped") {
  // Over TCP and shared memory. The stopped rank throws the same failure report after SIGCONT.
  for (const bool shared_memory : {false, true}) {
    CAPTURE(shared_memory);
    ::setenv("TUTTI_SHARED_MEMORY", shared_memory ? "1" : "0", 1);
    Job job(4, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 10s});
      std::vector<float> data(1000);
      while (true) {
        reduce_and_check(rank, communicator, data);
        rank.mark();
      }
    });
    ::unsetenv("TUTTI_SHARED_MEMORY");
    job.await_marks_of_all(3);
    job.signal(0, SIGSTOP);
    std::this_thread::sleep_for(100ms);
    const auto since = job.signal(3, SIGKILL);
    // Both end long before rank 0 continues.
    job.await_end(1, 5s);
    job.await_end(2, 5s);
    job.signal(0, SIGCONT);
    CHECK(check_survivors(job.finish(), {3}, since).failed_ranks == std::vector{3});
  }
}

TEST_CASE("a rank's death is reported although a child that it has forked lives on") {
  if (const auto reason = why_no_own_kernel(); !reason.empty()) {
    WARN("skipped: " + reason);
    return;
  }
  for (const int victim : {0, 1}) {
    CAPTURE(victim);
    Job job(2, [victim](Rank& rank) -> std::string {
      expect(pretend_own_kernel(rank.rank()) == 0, "no boot id of its own");
      auto& communicator = rank.communicator();
      std::vector<float> data(100000);
      reduce_and_check(rank, communicator, data);
      if (rank.rank() == victim) {
        // The child outlives the time limit of the survivors, and ends soon after it.
        if (::fork() == 0) {
          std::this_thread::sleep_for(5s);
          ::_exit(0);
        }
      }
      while (true) {
        reduce_and_check(rank, communicator, data);
        rank.mark();
      }
    });
    job.await_marks(victim, 3);
    const auto since = job.signal(victim, SIGKILL);
    CHECK(check_survivors(job.finish(), {victim}, since).failed_ranks == std::vector{victim});
  }
}

TEST_CASE("crashes and exits without a goodbye are deaths") {
  std::mt19937 random(3);  // NOLINT
  for (const int signal : {SIGSEGV, SIGABRT, SIGTERM}) {
    CAPTURE(signal);
    CHECK(kill_in_loop(3, 1000, {1}, signal, random).failed_ranks == std::vector{1});
  }
}

TEST_CASE("a rank that exits by itself in the middle of the job is named") {
  for (const int size : {2, 4}) {
    for (const int victim : {0, size - 1}) {
      CAPTURE(size, victim);
      Job job(size, [victim](Rank& rank) -> std::string {
        auto& communicator = rank.communicator();
        std::vector<float> data(1000);
        for (int i = 0;; ++i) {
          if (rank.rank() == victim && i == 5) {
            rank.stamp();
            ::_exit(3);
          }
          reduce_and_check(rank, communicator, data);
        }
      });
      const auto reports = job.finish();
      REQUIRE(WEXITSTATUS(reports[static_cast<std::size_t>(victim)].status) == 3);
      CHECK(check_survivors(reports, {victim}, job.stamped(victim)).failed_ranks ==
            std::vector{victim});
    }
  }
}

TEST_CASE("a death between calls is reported at the next call, at once") {
  for (const int size : {2, 3, 5}) {
    for (const int victim : {0, 1}) {
      CAPTURE(size, victim);
      Job job(size, [](Rank& rank) -> std::string {
        auto& communicator = rank.communicator();
        std::vector<float> data(1000);
        reduce_and_check(rank, communicator, data);
        rank.mark();
        rank.wait_for_release();
        rank.stamp();
        reduce_and_check(rank, communicator, data);
        return "reduced without the dead";
      });
      job.await_marks_of_all(1);
      job.signal(victim, SIGKILL);
      std::this_thread::sleep_for(300ms);
      const auto go = Clock::now();
      job.release();
      const auto reports = job.finish();
      const auto loss = check_survivors(reports, {victim}, go);
      CHECK(loss.failed_ranks == std::vector{victim});
      // The agreed failure precedes the call, so the call does not wait.
      CHECK(seconds(loss.worst) < 0.2 * time_factor());
    }
  }
}

TEST_CASE("each later call throws the same error again") {
  Job job(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator();
    std::vector<float> data(1000);
    std::string first;
    try {
      while (true) {
        reduce_and_check(rank, communicator, data);
        rank.mark();
      }
    } catch (const Error& error) {
      first = error.sentence();
    }
    const std::vector<std::function<void()>> calls{
        [&] { communicator.barrier(); },
        [&] { communicator.broadcast(std::span(data), 0); },
        [&] { communicator.send(std::span(data), (rank.rank() + 1) % 3); },
        [&] { communicator.recv(std::span(data), (rank.rank() + 1) % 3); },
        [&] { communicator.recv(std::span(data), any_rank); },
        [&] { communicator.recv(std::span(data), (rank.rank() + 1) % 3); },
        [&] { communicator.finalize(); },
    };
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto begin = Clock::now();
      try {
        calls[i]();
        expect(false, fmt::format("later call {} did not throw", i));
      } catch (const Error& error) {
        expect(error.code() == ErrorCode::peer_lost, "another code: " + error.sentence());
        expect(error.sentence() == first, first + " | but then | " + error.sentence());
      }
      expect(Clock::now() - begin < 200ms * time_factor(), "a call after the verdict has waited");
    }
    return "reported again and again";
  });
  job.await_marks_of_all(2);
  job.signal(2, SIGKILL);
  auto reports = job.finish();
  reports.pop_back();
  CHECK(errors_of(reports) == "");
}

TEST_CASE(
    "a death among point-to-point calls is reported to ranks that do not communicate with the dead "
    "rank") {
  // Rank 0 receives from rank 1, or from any rank, and nobody sends. Rank 2 dies. Rank 3 is outside
  // any call and makes one later.
  for (const int from : {1, any_rank}) {
    Job job(4, [from](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      std::vector<float> data(1000);
      reduce_and_check(rank, communicator, data);
      rank.mark();
      if (rank.rank() == 0) communicator.recv(std::span(data), from);
      rank.wait_for_release();
      communicator.recv(std::span(data), 0);
      return "received from nobody";
    });
    job.await_marks_of_all(1);
    std::this_thread::sleep_for(50ms);
    const auto since = job.signal(2, SIGKILL);
    std::this_thread::sleep_for(100ms);
    job.release();
    CHECK(check_survivors(job.finish(), {2}, since).failed_ranks == std::vector{2});
  }
}

TEST_CASE("a message that a rank sent before its death is received whole or not at all") {
  // Rank 1 sends a small message and dies. Rank 0 receives after the death is detected. It gets the
  // whole message or the error, never a part.
  for (int round = 0; round < 5; ++round) {
    Job job(2, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator();
      communicator.barrier();
      std::vector<std::int32_t> data(1000, 0);
      if (rank.rank() == 1) {
        std::fill(data.begin(), data.end(), 42);
        communicator.send(std::span(data), 0);
        ::_exit(3);
      }
      std::this_thread::sleep_for(20ms);
      communicator.recv(std::span(data), 1);
      const bool whole =
          std::all_of(data.begin(), data.end(), [](int value) { return value == 42; });
      expect(whole, "recv has returned without the data");
      return "received";
    });
    const auto reports = job.finish();
    INFO(describe(reports));
    CHECK(reports[0].finished);
    CHECK(reports[0].other_error.empty());
    if (reports[0].failure) CHECK(reports[0].failure->code == ErrorCode::peer_lost);
  }
}

}  // namespace tutti::test
