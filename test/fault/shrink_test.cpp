// Survivors continue in a communicator of their own.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "loops.hpp"
#include "support/catch.hpp"

namespace tutti::test {
namespace {

/// Makes calls until a rank is lost.
void lose_a_rank(Communicator& communicator) {
  std::vector<float> data(1000);
  try {
    while (true) communicator.all_reduce(in_place, std::span(data), sum);
  } catch (const Error& error) {
    expect(error.code() == ErrorCode::peer_lost, "lost by " + error.sentence());
  }
}

/// Sum of the original rank numbers over all ranks of the communicator.
int sum_of_origins(Communicator& communicator, int origin) {
  std::int32_t sum_of = 1 << origin;
  communicator.all_reduce(in_place, std::span(&sum_of, 1), sum);
  return sum_of;
}

template <class Action>
std::string code_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name(error.code()), error.sentence());
  }
  return "none";
}

void check_well(std::vector<Report> reports, const std::set<int>& dead) {
  INFO(describe(reports));
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (dead.contains(static_cast<int>(rank))) continue;
    CAPTURE(rank);
    CHECK(reports[rank].finished);
    CHECK(!reports[rank].failure);
    CHECK(reports[rank].other_error.empty());
  }
}

}  // namespace

TEST_CASE("after a loss the survivors are ranks of a communicator that works") {
  for (const int size : {2, 3, 5, 8}) {
    for (const int victim : std::set{0, size / 2, size - 1}) {
      CAPTURE(size, victim);
      Job job(size, [=](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 10s});
        rank.mark();
        lose_a_rank(communicator);
        auto rest = communicator.shrink();
        const int due = rank.rank() - (rank.rank() > victim ? 1 : 0);
        expect(rest.size() == size - 1, fmt::format("{} ranks are left", rest.size()));
        expect(rest.rank() == due, fmt::format("this is rank {}", rest.rank()));
        expect(rest.info(rest.rank()).pid == ::getpid(), "the infos are of other ranks");
        expect(sum_of_origins(rest, rank.rank()) == (1 << size) - 1 - (1 << victim), "WRONG DATA");
        expect(rest.size() == 1 || rest.latest_algorithm() == "shared", "THEY SHARE NO MEMORY");
        auto half = rest.split(rest.rank() % 2);
        expect(half && half->size() >= 1, "no half");
        half->barrier();
        half->finalize();
        rest.finalize();
        return "done";
      });
      job.await_marks_of_all(1);
      job.signal(victim, SIGKILL);
      check_well(job.finish(), {victim});
    }
  }
}

TEST_CASE("a rank that was stopped when another died continues with the others") {
  for (const bool shared_memory : {false, true}) {
    for (const int stopped : {0, 1, 2}) {
      CAPTURE(shared_memory, stopped);
      ::setenv("TUTTI_SHARED_MEMORY", shared_memory ? "1" : "0", 1);
      Job job(4, [](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 20s});
        rank.mark();
        lose_a_rank(communicator);
        rank.mark();
        auto rest = communicator.shrink();
        expect(rest.size() == 3, fmt::format("{} ranks are left", rest.size()));
        expect(sum_of_origins(rest, rank.rank()) == 0b0111, "other survivors than 0, 1, 2");
        rest.finalize();
        return "done";
      });
      ::unsetenv("TUTTI_SHARED_MEMORY");
      job.await_marks_of_all(1);
      // During the loop, when all ranks are past set-up.
      std::this_thread::sleep_for(50ms);
      job.signal(stopped, SIGSTOP);
      job.signal(3, SIGKILL);
      // The others enter shrink() and wait for it there.
      for (int rank = 0; rank < 3; ++rank) {
        if (rank != stopped) job.await_marks(rank, 2);
      }
      job.signal(stopped, SIGCONT);
      check_well(job.finish(), {3});
    }
  }
}

TEST_CASE("a rank that is stopped beyond shrink()'s deadline does not continue alone") {
  for (const int stopped : {0, 2}) {
    CAPTURE(stopped);
    Job job(4, [stopped](Rank& rank) -> std::string {
      auto& communicator = rank.communicator({.timeout = 20s});
      rank.mark();
      lose_a_rank(communicator);
      rank.mark();
      try {
        (void)communicator.shrink({.timeout = 1s});
      } catch (const Error& error) {
        rank.mark();
        // The others stay alive, since the resumed rank may connect to them.
        if (rank.rank() != stopped) rank.wait_for_release();
        throw;
      }
      return "went on";
    });
    job.await_marks_of_all(1);
    std::this_thread::sleep_for(50ms);
    job.signal(stopped, SIGSTOP);
    job.signal(3, SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != stopped) job.await_marks(rank, 3);
    }
    job.signal(stopped, SIGCONT);
    job.await_marks(stopped, 3);
    job.release();
    const auto reports = job.finish();
    INFO(describe(reports));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      REQUIRE(reports[rank].failure);
      CHECK(reports[rank].failure->code == ErrorCode::timeout);
      if (static_cast<int>(rank) != stopped) {
        CHECK(reports[rank].failure->failed_ranks == std::vector{stopped});
      }
    }
  }
}

TEST_CASE("a second loss, and a third, are survived in the same way") {
  Job job(6, [](Rank& rank) -> std::string {
    std::optional<Communicator> communicator =
        Communicator::create(rank.bootstrap(), {.timeout = 10s});
    for (const int due : {5, 4, 3}) {
      rank.mark();
      lose_a_rank(*communicator);
      communicator = communicator->shrink();
      expect(communicator->size() == due, fmt::format("{} ranks are left", communicator->size()));
    }
    expect(sum_of_origins(*communicator, rank.rank()) == 0b011010, "other survivors than 1, 3, 4");
    communicator->finalize();
    return "done";
  });
  std::set<int> dead;
  std::uint64_t marks = 0;
  for (const int victim : {5, 0, 2}) {
    ++marks;
    for (int rank = 0; rank < 6; ++rank) {
      if (!dead.contains(rank)) job.await_marks(rank, marks);
    }
    job.signal(victim, SIGKILL);
    dead.insert(victim);
  }
  check_well(job.finish(), dead);
}

TEST_CASE("a rank that dies or leaves instead of shrinking is excluded") {
  for (const bool dies : {true, false}) {
    for (const int other : {0, 1, 3}) {
      CAPTURE(dies, other);
      Job job(5, [=](Rank& rank) -> std::string {
        auto& communicator = rank.communicator({.timeout = 10s});
        rank.mark();
        lose_a_rank(communicator);
        if (rank.rank() == other) {
          std::this_thread::sleep_for(30ms);
          if (dies) ::_exit(3);
          rank.destroy_communicators();
          std::this_thread::sleep_for(1s);  // stays alive
          return "left";
        }
        auto rest = communicator.shrink();
        expect(rest.size() == 3, fmt::format("{} ranks are left", rest.size()));
        expect(sum_of_origins(rest, rank.rank()) == 0b11111 - (1 << 2) - (1 << other),
               "WRONG DATA");
        rest.finalize();
        return "done";
      });
      job.await_marks_of_all(1);
      const auto since = job.signal(2, SIGKILL);
      const auto reports = job.finish();
      check_well(reports, dies ? std::set{2, other} : std::set{2});
      CHECK(seconds(reports[4].ended - since) < 2.0 * time_factor());
    }
  }
}

TEST_CASE("a survivor that does not call shrink() is named at the deadline") {
  Job job(4, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    rank.mark();
    lose_a_rank(communicator);
    if (rank.rank() == 2) {
      std::this_thread::sleep_for(3s);
      return "never came";
    }
    (void)communicator.shrink({.timeout = 1s});
    return "went on without";
  });
  job.await_marks_of_all(1);
  const auto since = job.signal(3, SIGKILL);
  const auto reports = job.finish();
  INFO(describe(reports));
  for (const std::size_t rank : {0U, 1U}) {
    REQUIRE(reports[rank].failure);
    CHECK(reports[rank].failure->code == ErrorCode::timeout);
    CHECK(reports[rank].failure->failed_ranks == std::vector{2});
    CHECK(seconds(reports[rank].ended - since) < 3.0 * time_factor());
  }
}

TEST_CASE("shrink is refused if there is nothing to continue from") {
  Job job(3, [](Rank& rank) -> std::string {
    auto& communicator = rank.communicator({.timeout = 10s});
    auto half = communicator.split(rank.rank() == 0 ? 0 : 1);
    const auto before = code_of([&] { (void)communicator.shrink(); });
    expect(before.find("usage: shrink() is for a job that has lost ranks") == 0, before);
    rank.mark();
    lose_a_rank(communicator);
    const auto part = code_of([&] { (void)half->shrink(); });
    expect(part.find("usage: shrink() is for a communicator of the whole job") == 0, part);
    auto rest = communicator.shrink();
    const auto again = code_of([&] { (void)communicator.shrink(); });
    expect(again.find("usage: this communicator has been shrunk already") == 0, again);
    rest.barrier();
    const auto old = code_of([&] { communicator.barrier(); });
    expect(old.find("peer_lost: ") == 0, old);
    rest.finalize();
    return "done";
  });
  job.await_marks_of_all(1);
  job.signal(2, SIGKILL);
  check_well(job.finish(), {2});
}

}  // namespace tutti::test
