// Agreement of all living ranks, for any order of messages.
#include "control/consensus.hpp"

#include <functional>

#include "simulated_job.hpp"
#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

FailureReport mismatch_found_by(int rank, int other) {
  return {.code = ErrorCode::mismatch,
          .failed_ranks = {rank, other},
          .sentence = "found by " + std::to_string(rank),
          .origin = rank};
}

using Prepare = std::function<void(SimulatedJob&)>;
using Check = std::function<std::string(const SimulatedJob&)>;

/// Runs the same job with many schedules; reports the first seed that fails.
void try_schedules(int size, int seeds, const Prepare& prepare, const Check& check = {}) {
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedJob job(size, static_cast<std::uint64_t>(seed));
    prepare(job);
    job.run();
    auto fault = job.fault();
    if (fault.empty() && check) fault = check(job);
    if (fault.empty()) continue;
    INFO("size " << size << ", seed " << seed);
    FAIL(fault);
  }
}

/// The agreed failure of the lowest living rank that has one.
const FailureReport* agreed_failure_of(const SimulatedJob& job, int size) {
  for (int rank = 0; rank < size; ++rank) {
    if (!job.is_dead(rank) && !job.decided(rank).empty()) return &job.decided(rank).front();
  }
  return nullptr;
}

Check is_lost(int size, const std::set<int>& ranks) {
  return [=](const SimulatedJob& job) -> std::string {
    const auto* agreed = agreed_failure_of(job, size);
    if (agreed == nullptr) return "there is no agreed failure";
    if (agreed->code != ErrorCode::peer_lost) return "the agreed failure is not a death";
    for (const auto& [rank, reason] : agreed->lost) {
      if (!ranks.contains(rank)) return "the agreed failure has a living rank";
    }
    return agreed->lost.empty() ? "the agreed failure has no rank" : "";
  };
}

}  // namespace

TEST_CASE("one death is agreed on by all living ranks") {
  for (const int size : {2, 3, 5, 8}) {
    for (int dead = 0; dead < size; ++dead) {
      try_schedules(
          size, 60, [&](SimulatedJob& job) { job.plan_death(dead); }, is_lost(size, {dead}));
    }
  }
}

TEST_CASE("two deaths are agreed on by all living ranks") {
  for (const int size : {3, 5, 8}) {
    for (int first = 0; first < size; ++first) {
      for (int second = first + 1; second < size; ++second) {
        try_schedules(
            size, 60,
            [&](SimulatedJob& job) {
              job.plan_death(first);
              job.plan_death(second);
            },
            is_lost(size, {first, second}));
      }
    }
  }
}

TEST_CASE("a leader that dies while it commits leaves one agreed failure") {
  for (const int size : {3, 5, 8}) {
    try_schedules(
        size, 2000,
        [&](SimulatedJob& job) {
          job.die_at_commit(0);
          job.plan_death(size - 1);
        },
        is_lost(size, {0, size - 1}));
  }
}

TEST_CASE("two leaders that die in turn while they commit leave one agreed failure") {
  try_schedules(
      5, 2000,
      [&](SimulatedJob& job) {
        job.die_at_commit(0);
        job.die_at_commit(1);
        job.plan_death(4);
      },
      is_lost(5, {0, 1, 4}));
}

TEST_CASE("mismatches reported by several ranks become one agreed failure") {
  for (const int size : {2, 3, 5, 8}) {
    try_schedules(
        size, 300,
        [&](SimulatedJob& job) {
          for (int rank = 0; rank < size; ++rank) {
            job.plan_report(rank, mismatch_found_by(rank, (rank + 1) % size));
          }
        },
        [&](const SimulatedJob& job) -> std::string {
          return agreed_failure_of(job, size)->code == ErrorCode::mismatch ? "" : "not a mismatch";
        });
  }
}

TEST_CASE("a death and a mismatch become one agreed failure") {
  for (const int size : {3, 5, 8}) {
    for (int dead = 0; dead < size; ++dead) {
      try_schedules(size, 200, [&](SimulatedJob& job) {
        job.plan_death(dead);
        job.plan_report((dead + 1) % size, mismatch_found_by((dead + 1) % size, dead));
        job.plan_report((dead + 2) % size, mismatch_found_by((dead + 2) % size, dead));
      });
    }
  }
}

TEST_CASE("a leader that dies while it commits a mismatch leaves one agreed failure") {
  for (const int size : {3, 5, 8}) {
    try_schedules(size, 1000, [&](SimulatedJob& job) {
      job.die_at_commit(0);
      job.plan_report(1, mismatch_found_by(1, 2));
    });
  }
}

TEST_CASE("ranks that have left are not lost, and the others agree without them") {
  for (const int size : {3, 5, 8}) {
    for (int departed = 0; departed < size; ++departed) {
      const int dead = (departed + 1) % size;
      try_schedules(
          size, 150,
          [&](SimulatedJob& job) {
            job.plan_goodbye(departed);
            job.plan_death(dead);
          },
          is_lost(size, {dead}));
    }
  }
}

TEST_CASE("in any mix of events the remaining ranks have one agreed failure") {
  for (const int size : {3, 5, 8}) {
    for (int seed = 0; seed < 2000; ++seed) {
      SimulatedJob job(size, static_cast<std::uint64_t>(seed));
      std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 1'000'000);
      const auto rank = [&] { return static_cast<int>(random() % static_cast<unsigned>(size)); };
      job.plan_report(0, mismatch_found_by(0, 1));
      job.plan_report(size - 1, mismatch_found_by(size - 1, 0));
      // At most two deaths: the links tolerate no more.
      for (int death = 0; death < 2; ++death) {
        const int dying = rank();
        if (random() % 2 == 0) {
          job.die_at_commit(dying);
        } else {
          job.plan_death(dying);
        }
      }
      if (random() % 2 == 0) job.plan_goodbye(rank());
      job.run();
      const auto fault = job.fault();
      if (fault.empty()) continue;
      INFO("size " << size << ", seed " << seed);
      FAIL(fault);
    }
  }
}

TEST_CASE("a goodbye alone causes no report") {
  SimulatedJob job(5, 1);
  for (int rank = 0; rank < 5; ++rank) job.plan_goodbye(rank);
  job.run();
  for (int rank = 0; rank < 5; ++rank) CHECK(job.decided(rank).empty());
}

namespace {

/// One rank's Consensus with an outbox that records.
struct Node {
  explicit Node(int rank, int size)
      : consensus(rank, size,
                  {.send_evidence = [this](const FailureReport&) { ++evidence; },
                   .propose =
                       [this](std::uint32_t number, bool asks, const FailureReport& report) {
                         round = number;
                         prepare = asks;
                         proposed = report;
                         ++proposals;
                       },
                   .acknowledge =
                       [this](int leader, std::uint32_t number,
                              const std::optional<FailureReport>& agreed,
                              const std::optional<Accepted>& accepted) {
                         acknowledged_leader = leader;
                         acknowledged_round = number;
                         committed = agreed;
                         earlier = accepted;
                       },
                   .commit = [this](std::uint32_t, const FailureReport&) { ++commits; },
                   .start_gather_timer = [this] { ++gathers; },
                   .start_response_timer = [this] { ++waits; },
                   .decided = [this](const FailureReport&) { ++decisions; }}) {}

  Consensus consensus;
  int evidence = 0;
  int proposals = 0;
  int commits = 0;
  int gathers = 0;
  int decisions = 0;
  int waits = 0;
  std::uint32_t round = 0;
  bool prepare = false;
  FailureReport proposed;
  int acknowledged_leader = -1;
  std::uint32_t acknowledged_round = 0;
  std::optional<FailureReport> committed;
  std::optional<Accepted> earlier;
};

FailureReport death_of(int rank, int origin) {
  return {.code = ErrorCode::peer_lost,
          .lost = {{rank, LossReason::connection_closed}},
          .origin = origin};
}

}  // namespace

TEST_CASE("a leader waits for every living rank before it commits") {
  Node leader(0, 5);
  leader.consensus.report_failure(death_of(4, 0));
  CHECK(leader.evidence == 1);
  CHECK(leader.gathers == 1);
  CHECK(leader.proposals == 0);
  leader.consensus.on_gather_timeout();
  REQUIRE(leader.proposals == 1);
  leader.consensus.on_acknowledgement(1, leader.round, {});
  leader.consensus.on_acknowledgement(2, leader.round, {});
  CHECK(leader.commits == 0);
  leader.consensus.on_acknowledgement(3, leader.round, {});
  CHECK(leader.commits == 1);
  CHECK(leader.decisions == 1);
  CHECK(leader.consensus.agreed_failure() == death_of(4, 0));
}

TEST_CASE("a leader that waits for a rank commits once that rank leaves") {
  Node leader(0, 3);
  leader.consensus.report_failure(death_of(2, 0));
  leader.consensus.on_gather_timeout();
  CHECK(leader.commits == 0);
  leader.consensus.departed(1);
  CHECK(leader.commits == 1);
}

TEST_CASE("deaths during the gather delay are one proposal, later ones start a new round") {
  Node leader(0, 6);
  leader.consensus.report_failure(death_of(5, 0));
  leader.consensus.on_evidence(death_of(4, 1));
  leader.consensus.on_gather_timeout();
  REQUIRE(leader.proposals == 1);
  CHECK(leader.proposed.lost.size() == 2);
  leader.consensus.on_evidence(death_of(3, 2));
  leader.consensus.on_gather_timeout();
  REQUIRE(leader.proposals == 2);
  CHECK(leader.proposed.lost.size() == 3);
  // Acknowledgements of the first round do not count any more.
  leader.consensus.on_acknowledgement(1, leader.round - 1, {});
  leader.consensus.on_acknowledgement(2, leader.round - 1, {});
  CHECK(leader.commits == 0);
  // Others may have led since the first round.
  CHECK(leader.prepare);
  leader.consensus.on_acknowledgement(1, leader.round, {});
  leader.consensus.on_acknowledgement(2, leader.round, {});
  CHECK(leader.commits == 0);
  REQUIRE(leader.proposals == 3);
  CHECK(!leader.prepare);
  leader.consensus.on_acknowledgement(1, leader.round, {});
  leader.consensus.on_acknowledgement(2, leader.round, {});
  CHECK(leader.commits == 1);
}

TEST_CASE("a known death is not reported again") {
  Node node(1, 4);
  node.consensus.report_failure(death_of(3, 1));
  node.consensus.report_failure(death_of(3, 1));
  CHECK(node.evidence == 1);
  CHECK(node.gathers == 0);  // rank 0 leads
}

TEST_CASE("a rank that has committed says so to a later leader, which commits the same report") {
  const auto first = death_of(3, 0);
  Node committed(2, 4);
  committed.consensus.on_commit(0, 0, first);
  CHECK(committed.decisions == 1);
  committed.consensus.on_proposal(1, 5, false, death_of(0, 1));
  CHECK(committed.acknowledged_leader == 1);
  CHECK(committed.acknowledged_round == 5);
  REQUIRE(committed.committed.has_value());
  CHECK(*committed.committed == first);

  Node second(1, 4);
  second.consensus.on_evidence(first);
  second.consensus.report_failure(death_of(0, 1));
  second.consensus.on_gather_timeout();
  REQUIRE(second.proposals == 1);
  second.consensus.on_acknowledgement(2, second.round, committed.committed);
  CHECK(second.commits == 1);
  CHECK(second.consensus.agreed_failure() == first);
}

TEST_CASE("a rank that has acknowledged a later leader ignores an earlier leader's commit") {
  Node node(2, 4);
  node.consensus.on_proposal(0, 0, false, death_of(3, 0));
  node.consensus.on_evidence(death_of(0, 1));
  node.consensus.on_proposal(1, 1, false, merge(death_of(3, 0), death_of(0, 1)));
  CHECK(node.acknowledged_leader == 1);
  CHECK(!node.committed);
  node.consensus.on_commit(0, 0, death_of(3, 0));  // a delayed message
  CHECK(!node.consensus.agreed_failure());
  node.consensus.on_proposal(0, 0, false, death_of(3, 0));
  CHECK(node.acknowledged_round == 1);  // the earlier leader gets the higher round
  node.consensus.on_commit(1, 1, death_of(0, 1));
  CHECK(node.consensus.agreed_failure() == death_of(0, 1));
}

TEST_CASE("a leader repeats its commit to ranks that still report a loss") {
  Node node(1, 4);
  node.consensus.on_commit(0, 0, death_of(3, 0));
  CHECK(node.commits == 0);
  node.consensus.on_evidence(death_of(0, 2));
  CHECK(node.commits == 1);
  node.consensus.on_evidence(death_of(2, 1));
  CHECK(node.commits == 2);
  CHECK(node.decisions == 1);
}

TEST_CASE("a rank that has left neither leads nor acknowledges") {
  Node node(0, 3);
  node.consensus.departed(0);
  node.consensus.report_failure(death_of(2, 0));
  CHECK(node.evidence == 1);
  CHECK(node.gathers == 0);
  node.consensus.on_proposal(1, 1, false, death_of(2, 1));
  CHECK(node.acknowledged_leader == -1);
}

TEST_CASE("a rank ignores a report of its own death") {
  Node node(1, 3);
  node.consensus.on_evidence(death_of(1, 0));
  CHECK(!node.consensus.is_lost(1));
  CHECK(node.gathers == 0);
  CHECK(!node.consensus.agreed_failure());
}

TEST_CASE("a leader does not wait for an unresponsive rank after the response timeout") {
  Node leader(0, 5);
  leader.consensus.report_failure(death_of(4, 0));
  leader.consensus.on_gather_timeout();
  leader.consensus.on_acknowledgement(1, leader.round, {});
  leader.consensus.on_response_timeout();
  CHECK(leader.commits == 0);  // two of four living ranks are not a majority
  leader.consensus.on_acknowledgement(2, leader.round, {});
  CHECK(leader.commits == 1);
  CHECK(leader.consensus.agreed_failure() == death_of(4, 0));
}

TEST_CASE(
    "a rank leads in place of an unresponsive one and adopts what that one may have committed") {
  Node node(1, 4);
  node.consensus.report_failure(death_of(3, 1));
  CHECK(node.waits == 1);
  node.consensus.on_response_timeout();
  CHECK(node.gathers == 1);
  node.consensus.on_gather_timeout();
  REQUIRE(node.proposals == 1);
  CHECK(node.prepare);
  const auto other = mismatch_found_by(0, 2);
  node.consensus.on_acknowledgement(2, node.round, {}, Accepted{0, 0, other});
  node.consensus.on_response_timeout();
  REQUIRE(node.proposals == 2);
  CHECK(!node.prepare);
  CHECK(node.proposed == other);
  node.consensus.on_acknowledgement(2, node.round, {});
  CHECK(node.consensus.agreed_failure() == other);
}

TEST_CASE("in phase 1 a rank reports what it has accepted from a living leader") {
  Node node(2, 4);
  node.consensus.on_proposal(0, 0, false, mismatch_found_by(0, 2));
  node.consensus.on_proposal(1, 1, true, death_of(3, 1));
  REQUIRE(node.earlier.has_value());
  CHECK(node.earlier->report == mismatch_found_by(0, 2));
  // A dead leader's proposal is void.
  node.consensus.on_evidence(death_of(0, 1));
  node.consensus.on_proposal(1, 5, true, death_of(3, 1));
  CHECK(!node.earlier.has_value());
}

TEST_CASE("stopped ranks do not block the others and receive the agreed failure when they resume") {
  for (const int size : {3, 4, 5, 8}) {
    for (int seed = 0; seed < 600; ++seed) {
      SimulatedJob job(size, static_cast<std::uint64_t>(seed));
      const int dead = size - 1;
      const int stopped = seed % (size - 1);
      // The death is detected before or after the stop.
      job.plan_stop(stopped);
      job.plan_death(dead);
      job.run(true);
      INFO("size " << size << ", seed " << seed << ", stopped " << stopped);
      const auto fault = job.fault();
      CHECK(fault == "");
      for (int rank = 0; rank < size; ++rank) {
        if (rank == dead || job.was_stopped(rank)) continue;
        CHECK(job.decided_before_resume(rank).size() == 1);
      }
      if (!fault.empty()) return;
    }
  }
}

TEST_CASE("response timeouts of slow ranks still lead to one agreed failure") {
  for (const int size : {3, 4, 5, 8}) {
    for (int seed = 0; seed < 3000; ++seed) {
      SimulatedJob job(size, static_cast<std::uint64_t>(seed));
      std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 2'000'000);
      const auto rank = [&] { return static_cast<int>(random() % static_cast<unsigned>(size)); };
      job.plan_report(0, mismatch_found_by(0, 1));
      job.plan_report(size - 1, mismatch_found_by(size - 1, 0));
      if (random() % 2 == 0) job.plan_death(rank());
      if (random() % 4 == 0) job.plan_stop(rank());
      for (int i = 0; i < 6; ++i) job.plan_response_timeout(rank());
      job.run(true);
      const auto fault = job.fault();
      if (fault.empty()) continue;
      INFO("size " << size << ", seed " << seed);
      FAIL(fault);
    }
  }
}

TEST_CASE("a rank that decides by itself sends its decision to the others") {
  Node alone(1, 2);
  alone.consensus.decide_unilaterally(mismatch_found_by(1, 0));
  CHECK(alone.commits == 1);
  CHECK(alone.consensus.agreed_failure() == mismatch_found_by(1, 0));
  // A known death takes precedence over the report of its call.
  Node knows(1, 3);
  knows.consensus.report_failure(death_of(2, 1));
  knows.consensus.decide_unilaterally(mismatch_found_by(1, 0));
  CHECK(knows.consensus.agreed_failure() == death_of(2, 1));
}

TEST_CASE("the first agreed failure stays") {
  Node node(1, 3);
  node.consensus.on_commit(0, 0, death_of(2, 0));
  node.consensus.on_commit(2, 2, death_of(0, 2));
  CHECK(node.decisions == 1);
  CHECK(node.consensus.agreed_failure() == death_of(2, 0));
}

}  // namespace tutti::control::test
