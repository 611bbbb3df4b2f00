// Late ranks: stopped, asleep or in another call. A late rank is not dead.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

constexpr auto deadline = 1s;
// Limit for an error after the deadline: the rank asks the others for their state, and all agree.
constexpr auto agreement_time = 1500ms;

const Report& report_of(const std::vector<Report>& reports, int rank) {
  return reports.at(static_cast<std::size_t>(rank));
}

void stop_all(const Job& job, Clock::duration time) {
  for (int rank = 0; rank < job.size(); ++rank) job.signal(rank, SIGSTOP);
  std::this_thread::sleep_for(time);
  for (int rank = 0; rank < job.size(); ++rank) job.signal(rank, SIGCONT);
}

}  // namespace

TEST_CASE("a rank that is stopped for less than the deadline causes no error") {
  for (const int size : {2, 4}) {
    for (const int victim : {0, size - 1}) {
      for (const std::size_t count : {std::size_t{1000}, std::size_t{1} << 20}) {
        CAPTURE(size, victim, count);
        Job job(size, [count](Rank& rank) -> std::string {
          auto& communicator = rank.communicator({.timeout = 10s});
          reduce_until_released(rank, communicator, count);
          communicator.finalize();
          return "done";
        });
        job.await_marks_of_all(3);
        job.signal(victim, SIGSTOP);
        std::this_thread::sleep_for(700ms);
        const auto before = job.marks(victim);
        job.signal(victim, SIGCONT);
        job.await_marks(victim, before + 3);
        job.release();
        CHECK(errors_of(job.finish()) == "");
      }
    }
  }
}

TEST_CASE("a rank that is stopped for longer than the deadline is named by the others") {
  for (const int size : {2, 3, 4, 5}) {
    for (const int victim : std::set{0, size / 2, size - 1}) {
      CAPTURE(size, victim);
      Job job(size,
              [](Rank& rank) -> std::string { reduce_forever(rank, 1000, {.timeout = deadline}); });
      job.await_marks_of_all(3);
      job.signal(victim, SIGSTOP);
      for (int rank = 0; rank < size; ++rank) {
        if (rank != victim) job.await_end(rank);
      }
      const auto continued = job.signal(victim, SIGCONT);
      const auto reports = job.finish();
      INFO(describe(reports));
      int speakers = 0;
      for (int rank = 0; rank < size; ++rank) {
        CAPTURE(rank);
        const auto& report = report_of(reports, rank);
        REQUIRE(report.failure);
        if (rank == victim) {
          // The job has ended meanwhile: the rank must throw within its own deadline.
          CHECK(seconds(report.ended - continued) <
                seconds(deadline + agreement_time * time_factor()));
          continue;
        }
        CHECK(report.failure->code == ErrorCode::timeout);
        CHECK(report.failure->failed_ranks == std::vector{victim});
        CHECK(report.failure->sentence.find(fmt::format("rank {} (", victim)) != std::string::npos);
        CHECK(report.failure->sentence.find("does not answer") != std::string::npos);
        CHECK(seconds(report.ended - job.stamped(rank)) <
              seconds(deadline + agreement_time * time_factor()));
        CHECK(seconds(report.ended - job.stamped(rank)) > 0.9 * seconds(deadline));
        CHECK(report.destruction < 1500ms * time_factor());
        speakers += report.failure->speaks ? 1 : 0;
      }
      CHECK(speakers == 1);
    }
  }
}

TEST_CASE("a pause of all ranks makes no rank late") {
  for (const bool shared_memory : {true, false}) {
    CAPTURE(shared_memory);
    ::setenv("TUTTI_SHARED_MEMORY", shared_memory ? "1" : "0", 1);
    Job job(3, [](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 2s});
      reduce_until_released(rank, communicator, 1000);
      communicator.finalize();
      return "done";
    });
    ::unsetenv("TUTTI_SHARED_MEMORY");
    job.await_marks_of_all(3);
    stop_all(job, 4s);
    const auto before = job.marks(0);
    job.await_marks(0, before + 3);
    job.release();
    CHECK(errors_of(job.finish()) == "");
  }
}

TEST_CASE("a pause of all ranks in set-up makes no rank late") {
  // Stopped before the exchange of the secret, of the peer info, before the barrier, and while
  // links are opened. All other ranks wait for the last one.
  for (const int exchange : {1, 2, 3, 4}) {
    CAPTURE(exchange);
    Job job(3, [exchange](Rank& rank) -> std::string {
      const auto pause = [&rank, exchange](int number) {
        if (number != exchange || rank.rank() != 2) return;
        rank.mark();
        std::this_thread::sleep_for(500ms);
      };
      rank.bootstrap().before = pause;
      rank.bootstrap().after = [pause](int number) {
        if (number == 3) pause(4);
      };
      auto& communicator = rank.communicator({.timeout = 2s});
      std::vector<float> data(1000);
      reduce_and_check(rank, communicator, data);
      communicator.finalize();
      return "done";
    });
    job.await_marks(2, 1);
    stop_all(job, 4s);
    CHECK(errors_of(job.finish()) == "");
  }
}

TEST_CASE("a rank that is stopped in addition to a pause of all is still named") {
  Job job(3, [](Rank& rank) -> std::string { reduce_forever(rank, 1000, {.timeout = 2s}); });
  job.await_marks_of_all(3);
  for (int rank = 0; rank < 3; ++rank) job.signal(rank, SIGSTOP);
  std::this_thread::sleep_for(4s);
  for (const int rank : {0, 2}) job.signal(rank, SIGCONT);
  for (const int rank : {0, 2}) job.await_end(rank);
  job.signal(1, SIGCONT);
  const auto reports = job.finish();
  INFO(describe(reports));
  for (int rank = 0; rank < 3; ++rank) {
    CAPTURE(rank);
    const auto& failure = report_of(reports, rank).failure;
    REQUIRE(failure);
    CHECK(failure->code == ErrorCode::timeout);
    CHECK(failure->failed_ranks == std::vector{1});
  }
}

TEST_CASE("a rank that sleeps outside any call is named with what it does") {
  for (const int size : {2, 3, 4}) {
    for (const int sleeper : {0, size - 1}) {
      CAPTURE(size, sleeper);
      const auto reports = run_ranks(size, [sleeper](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 500ms});
        std::vector<float> data(1000);
        for (int i = 0; i < 3; ++i) reduce_and_check(rank, communicator, data);
        if (rank.rank() == sleeper) std::this_thread::sleep_for(1500ms);
        reduce_and_check(rank, communicator, data);
        return "reduced";
      });
      INFO(describe(reports));
      for (int rank = 0; rank < size; ++rank) {
        CAPTURE(rank);
        REQUIRE(report_of(reports, rank).failure);
        const auto& failure = *report_of(reports, rank).failure;
        CHECK(failure.code == ErrorCode::timeout);
        CHECK(failure.failed_ranks == std::vector{sleeper});
        CHECK(failure.sentence.find(fmt::format("rank {} (", sleeper)) != std::string::npos);
        CHECK(failure.sentence.find("pid ") != std::string::npos);
        CHECK(failure.sentence.find("outside any call") != std::string::npos);
        CHECK(failure.sentence.find("all_reduce of 1000 f32, sum") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a rank that is stuck in another call is named with that call") {
  // Rank 1 waits for a message that rank 2 never sends. Ranks 0 and 2 wait in the barrier for rank
  // 1.
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 1s});
    communicator.barrier();
    std::vector<float> data(77);
    if (rank.rank() == 1) communicator.recv(std::span(data), 2, {.timeout = 20s});
    communicator.barrier();
    return "passed";
  });
  INFO(describe(reports));
  for (const int rank : {0, 2}) {
    REQUIRE(report_of(reports, rank).failure);
    const auto& failure = *report_of(reports, rank).failure;
    CHECK(failure.code == ErrorCode::timeout);
    CHECK(failure.failed_ranks == std::vector{1});
    CHECK(failure.sentence.find("recv of 77 f32 from rank 2") != std::string::npos);
  }
  REQUIRE(report_of(reports, 1).failure);
}

TEST_CASE("a receive names the sender that it waits for, not a rank that is late elsewhere") {
  const auto reports = run_ranks(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 1s});
    communicator.barrier();
    std::vector<float> data(10);
    if (rank.rank() == 2) {
      std::this_thread::sleep_for(3s);  // delays only the broadcast, not the message
      return "slept";
    }
    communicator.broadcast(std::span(data), 0, {.algorithm = "direct"});
    if (rank.rank() == 0) communicator.recv(std::span(data), 1);
    std::this_thread::sleep_for(2s);
    return "did not send";
  });
  INFO(describe(reports));
  REQUIRE(report_of(reports, 0).failure);
  CHECK(report_of(reports, 0).failure->code == ErrorCode::timeout);
  CHECK(report_of(reports, 0).failure->failed_ranks == std::vector{1});
}

TEST_CASE("two ranks that both send first: the report names both sends") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 1s});
    std::vector<float> data(std::size_t{2} << 20);
    communicator.send(std::span(data), 1 - rank.rank());
    communicator.recv(std::span(data), 1 - rank.rank());
    return "passed";
  });
  INFO(describe(reports));
  for (const int rank : {0, 1}) {
    REQUIRE(report_of(reports, rank).failure);
    const auto& failure = *report_of(reports, rank).failure;
    CHECK(failure.code == ErrorCode::timeout);
    CHECK(failure.sentence.find("send of 2097152 f32 to rank 0") != std::string::npos);
    CHECK(failure.sentence.find("send of 2097152 f32 to rank 1") != std::string::npos);
  }
}

TEST_CASE("a receive without a send ends at the call's own deadline") {
  const auto reports = run_ranks(2, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 20s});
    communicator.barrier();
    std::vector<float> data(10);
    if (rank.rank() == 0) {
      const auto begin = Clock::now();
      try {
        communicator.recv(std::span(data), 1, {.timeout = 300ms});
      } catch (const Error& error) {
        expect(Clock::now() - begin < 300ms + agreement_time * time_factor(), "it came too late");
        throw;
      }
    } else {
      std::this_thread::sleep_for(3s);
      communicator.barrier();
    }
    return "passed";
  });
  INFO(describe(reports));
  for (const int rank : {0, 1}) {
    REQUIRE(report_of(reports, rank).failure);
    CHECK(report_of(reports, rank).failure->code == ErrorCode::timeout);
    CHECK(report_of(reports, rank).failure->failed_ranks == std::vector{1});
  }
}

TEST_CASE("set-up ends at the deadline if a rank is stopped") {
  // Stopped after the exchange of peer info: the kernel accepts the control link, but the process
  // does not answer.
  for (const int victim : {0, 2}) {
    CAPTURE(victim);
    Job job(3, [victim](Rank& rank) -> std::string {
      rank.bootstrap().after = [&rank, victim](int exchange) {
        if (exchange == 3) rank.stamp();
        if (exchange == 3 && rank.rank() == victim) ::raise(SIGSTOP);
      };
      rank.communicator({.timeout = deadline});
      return "set up";
    });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != victim) job.await_end(rank);
    }
    job.signal(victim, SIGKILL);
    const auto reports = job.finish();
    INFO(describe(reports));
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const auto& report = report_of(reports, rank);
      REQUIRE(report.failure);
      CHECK(report.failure->code == ErrorCode::timeout);
      CHECK(report.failure->failed_ranks == std::vector{victim});
      CHECK(report.failure->sentence.find("set-up") != std::string::npos);
      CHECK(report.failure->sentence.find(fmt::format("rank {} (", victim)) != std::string::npos);
      CHECK(seconds(report.ended - job.stamped(rank)) <
            seconds(deadline + agreement_time * time_factor()));
    }
  }
}

}  // namespace tutti::test
