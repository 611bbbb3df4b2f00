// Fault injection by TUTTI_FAULT: each kind has its documented effect.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <thread>

#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

constexpr int size = 3;

/// Ten all_reduces under `fault`. Each rank is on a host of its own, so all data uses TCP.
Body ten_calls(const std::string& fault, std::chrono::nanoseconds timeout = 20s) {
  return [=](Rank& rank) -> std::string {
    ::setenv("TUTTI_FAULT", fault.c_str(), 1);
    ::setenv("TUTTI_HOST_ID", fmt::format("host{}", rank.rank()).c_str(), 1);
    auto& communicator = rank.communicator({.timeout = timeout});
    std::vector<float> data(50'000);
    const auto begin = Clock::now();
    for (int call = 0; call < 10; ++call) {
      reduce_and_check(rank, communicator, data);
      rank.mark();
    }
    communicator.finalize();
    return fmt::format("{}", (Clock::now() - begin) / 1ms);
  };
}

}  // namespace

TEST_CASE("kill: the rank dies in the call that was named, and the others name it") {
  Job job(size, ten_calls("kill:rank=1,call=4"));
  const auto reports = job.finish();
  CHECK(WIFSIGNALED(reports[1].status));
  CHECK(WTERMSIG(reports[1].status) == SIGKILL);
  CHECK(job.marks(1) == 3);
  for (const int rank : {0, 2}) {
    INFO(describe(reports));
    REQUIRE(reports[static_cast<std::size_t>(rank)].failure);
    const auto& failure = *reports[static_cast<std::size_t>(rank)].failure;
    CHECK(failure.code == ErrorCode::peer_lost);
    CHECK(failure.failed_ranks == std::vector<int>{1});
  }
}

TEST_CASE("stop: the rank is late until it is resumed") {
  Job job(size, ten_calls("stop:rank=2,call=3"));
  job.await_marks(2, 2);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(job.pid(2)), &info, WSTOPPED | WNOWAIT) == 0);
  CHECK(info.si_code == CLD_STOPPED);
  CHECK(job.marks(2) == 2);
  job.signal(2, SIGCONT);
  CHECK(errors_of(job.finish()) == "");
}

TEST_CASE("stop: past the deadline it is named as late, not as dead") {
  Job job(size, ten_calls("stop:rank=2,call=3", 1s));
  job.await_end(0);
  job.await_end(1);
  job.signal(2, SIGCONT);
  const auto reports = job.finish();
  for (const std::size_t rank : {0U, 1U}) {
    INFO(describe(reports));
    REQUIRE(reports[rank].failure);
    CHECK(reports[rank].failure->code == ErrorCode::timeout);
    CHECK(reports[rank].failure->failed_ranks == std::vector<int>{2});
  }
}

TEST_CASE("delay: all ranks wait for that rank") {
  const auto reports = run_ranks(size, ten_calls("delay:rank=0,call=5,time=400ms"));
  CHECK(errors_of(reports) == "");
  for (const auto& report : reports) CHECK(std::stoi(report.text) >= 400);
}

TEST_CASE("drop-link: the call fails on all ranks, and no living rank is called dead") {
  const auto reports = run_ranks(size, ten_calls("drop-link:rank=0,peer=1,call=3", 5s));
  for (const auto& report : reports) {
    INFO(describe(reports));
    REQUIRE(report.failure);
    CHECK(report.failure->code != ErrorCode::peer_lost);
    CHECK(!report.failure->failed_ranks.empty());
  }
}

TEST_CASE("drop-link: ranks of a host that wait for each other in shared memory need no link") {
  const std::string host_of[] = {"a", "a", "b", "b"};
  Job job(4, [&](Rank& rank) -> std::string {
    ::setenv("TUTTI_FAULT", "drop-link:rank=0,peer=1,call=2", 1);
    ::setenv("TUTTI_HOST_ID", host_of[rank.rank()].c_str(), 1);
    auto& communicator = rank.communicator({.timeout = 20s});
    std::vector<float> data(3);
    // Connects the link.
    if (rank.rank() == 1) communicator.send(data, 0);
    if (rank.rank() == 0) communicator.recv(data, 1);
    // Longer than a broken link is tolerated where data has to come through it.
    if (rank.rank() == 1) std::this_thread::sleep_for(3s);
    reduce_and_check(rank, communicator, data, {.algorithm = "leaders"});
    rank.mark();
    rank.wait_for_release();
    return "";
  });
  try {
    job.await_marks_of_all(1);
  } catch (const std::exception&) {
  }
  job.release();
  CHECK(errors_of(job.finish()) == "");
}

TEST_CASE("short-writes: the data is right all the same") {
  CHECK(errors_of(run_ranks(size, ten_calls("short-writes:bytes=500"))) == "");
  CHECK(errors_of(run_ranks(size, ten_calls("short-writes:rank=1,bytes=133"))) == "");
}

TEST_CASE("an invalid fault, or one for no rank, is a usage error") {
  for (const std::string fault : {"kill", "kill:rank=3"}) {
    const auto reports = run_ranks(size, ten_calls(fault));
    for (const auto& report : reports) {
      REQUIRE(report.failure);
      CHECK(report.failure->code == ErrorCode::usage);
      CHECK(report.failure->sentence.find("TUTTI_FAULT") == 0);
    }
  }
}

}  // namespace tutti::test
