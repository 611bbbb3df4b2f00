// History of calls, and comparison of two histories.
#include "control/call_history.hpp"

#include <algorithm>
#include <thread>

#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

CallSignature all_reduce(std::uint64_t count) {
  return {Operation::all_reduce, Type::f32, Operator::sum, -1, count};
}

void make_calls(CallHistory& history, std::uint64_t calls) {
  for (std::uint64_t i = 0; i < calls; ++i) {
    history.end(history.begin_collective(all_reduce(i % 3)).ticket);
  }
}

/// Two ranks that make the same calls except for one.
struct Pair {
  CallHistory mine;
  CallHistory theirs;

  Pair(const CallSignature& my_call, const CallSignature& their_call, int before, int after) {
    for (int i = 0; i < before; ++i) both(all_reduce(7));
    mine.begin_collective(my_call);
    theirs.begin_collective(their_call);
    for (int i = 0; i < after; ++i) both(all_reduce(8));
  }
  void both(const CallSignature& call) {
    mine.begin_collective(call);
    theirs.begin_collective(call);
  }
};

}  // namespace

TEST_CASE("calls are numbered from 1 and stored with their fingerprints") {
  CallHistory history;
  CHECK(!history.find(0));
  CHECK(!history.find(1));
  const auto first = history.begin_collective(all_reduce(4));
  const auto second = history.begin_collective(all_reduce(4));
  CHECK(first.sequence == 1);
  CHECK(second.sequence == 2);
  CHECK(first.fingerprint == fingerprint(0, all_reduce(4)));
  CHECK(second.fingerprint == fingerprint(first.fingerprint, all_reduce(4)));
  REQUIRE(history.find(1));
  CHECK(history.find(1)->call == all_reduce(4));
  CHECK(history.find(2)->fingerprint == second.fingerprint);
  CHECK(!history.find(3));
}

TEST_CASE("old calls are dropped, the latest are kept in order") {
  CallHistory history;
  make_calls(history, CallHistory::kept + 10);
  CHECK(!history.find(10));
  REQUIRE(history.find(11));
  const auto latest = history.latest(16);
  REQUIRE(latest.size() == 16);
  for (std::size_t i = 0; i < latest.size(); ++i) {
    CHECK(latest[i].sequence == CallHistory::kept + 10 - 15 + i);
  }
  CHECK(history.latest(10'000).size() == CallHistory::kept);
}

TEST_CASE("latest() returns all calls if there are few") {
  CallHistory history;
  CHECK(history.latest(16).empty());
  make_calls(history, 3);
  REQUIRE(history.latest(16).size() == 3);
  CHECK(history.latest(16).front().sequence == 1);
  CHECK(history.latest(2).front().sequence == 2);
}

TEST_CASE("the activity is the latest call, collective or not") {
  CallHistory history;
  CHECK(!history.activity().in_call);
  history.begin_collective(all_reduce(4));
  CHECK(history.activity().in_call);
  CHECK(history.activity().sequence == 1);
  CHECK(history.activity().call == all_reduce(4));
  history.end();
  CHECK(!history.activity().in_call);
  CHECK(history.activity().call == all_reduce(4));
  const CallSignature send{Operation::send, Type::u8, Operator::sum, 3, 9};
  history.begin_other(send);
  CHECK(history.activity().in_call);
  CHECK(history.activity().sequence == 1);
  CHECK(history.activity().call == send);
}

TEST_CASE("any number of calls in flight is kept") {
  CallHistory history;
  const auto first = history.begin_collective(all_reduce(1));
  for (std::uint64_t i = 0; i < 4 * CallHistory::kept; ++i) history.begin_collective(all_reduce(2));
  REQUIRE(history.find(first.sequence));
  CHECK(history.find(first.sequence)->call == all_reduce(1));
  CHECK(history.find(4 * CallHistory::kept + 1)->call == all_reduce(2));
}

TEST_CASE("the recorder has the latest calls, those in progress with the awaited ranks") {
  CallHistory history(Group::whole_job(0, 3), true);
  const auto first = history.begin_collective(all_reduce(1));
  const auto second = history.begin_other({Operation::send, Type::u8, Operator::sum, 2, 9}).ticket;
  const auto third = history.begin_collective(all_reduce(3));
  history.end(second);
  std::vector<int> awaited{2};
  history.note_awaited(third.ticket, awaited);
  auto record = history.record();
  REQUIRE(record.size() == 3);
  CHECK(record[0].end == 0);
  CHECK(record[0].awaited.empty());
  CHECK(record[1].end >= record[1].begin);
  CHECK(record[1].call.operation == Operation::send);
  CHECK(record[2].sequence == third.sequence);
  CHECK(record[2].awaited == std::vector{2});
  history.end();  // without a ticket: the oldest in progress
  record = history.record();
  CHECK(record[0].end >= record[0].begin);
  CHECK(record[2].end == 0);
  CHECK(history.activity().in_call);
  history.end(third.ticket);
  CHECK(!history.activity().in_call);
  CHECK(history.record()[2].awaited.empty());
  for (int i = 0; i < 1000; ++i) history.end(history.begin_collective(all_reduce(4)).ticket);
  record = history.record();
  CHECK(record.size() == CallHistory::recorded);
  CHECK(record.back().sequence == first.sequence + 1001);
}

TEST_CASE("end_latest() takes effect at once, other calls stay in progress") {
  CallHistory history(Group::whole_job(0, 3), true);
  const auto started = history.begin_collective(all_reduce(1));
  const auto blocking = history.begin_collective(all_reduce(2));
  history.end_latest(blocking.ticket);
  CHECK(history.activity().in_call);
  auto record = history.record();
  REQUIRE(record.size() == 2);
  CHECK(record[0].end == 0);
  CHECK(record[1].end >= record[1].begin);
  history.end(started.ticket);
  CHECK(!history.activity().in_call);
  const auto next = history.begin_collective(all_reduce(3));
  history.end_latest(next.ticket);
  CHECK(!history.activity().in_call);
  history.begin_other({Operation::send, Type::u8, Operator::sum, 2, 9});
  CHECK(history.activity().in_call);
  record = history.record();
  REQUIRE(record.size() == 4);
  CHECK(record[2].end >= record[2].begin);
  CHECK(record[3].end == 0);
}

TEST_CASE("sends and receives are not compared") {
  CallHistory history;
  history.begin_other({Operation::send, Type::u8, Operator::sum, 3, 9});
  const auto call = history.begin_collective(all_reduce(4));
  CHECK(call.sequence == 1);
  CHECK(call.fingerprint == fingerprint(0, all_reduce(4)));
}

TEST_CASE("equal calls and calls not made yet are not a difference") {
  CallHistory mine;
  CallHistory theirs;
  make_calls(mine, 5);
  make_calls(theirs, 9);
  CHECK(!compare(mine, theirs.latest(16)));
  CHECK(!compare(theirs, mine.latest(16)));
  CHECK(!compare(mine, theirs.latest(2)));  // not made yet by this rank
  CHECK(!compare(mine, {}));
}

TEST_CASE("another operation, type, operator, root or count is reported with both calls") {
  const CallSignature call{Operation::broadcast, Type::f32, Operator::sum, 0, 100};
  auto operation = call;
  operation.operation = Operation::fan_out;
  auto type = call;
  type.type = Type::i8;
  auto op = call;
  op.op = Operator::max;
  auto root = call;
  root.root = 1;
  auto count = call;
  count.count = 101;
  for (const auto& other : {operation, type, op, root, count}) {
    for (const int after : {0, 1, 12}) {
      const Pair pair(call, other, 3, after);
      const auto difference = compare(pair.mine, pair.theirs.latest(16));
      REQUIRE(difference);
      CHECK(difference->sequence == 4);
      CHECK(difference->mine == call);
      CHECK(difference->theirs == other);
    }
  }
}

TEST_CASE("a difference older than the calls sent is reported without the calls") {
  const Pair pair(all_reduce(1), all_reduce(2), 3, 40);
  const auto difference = compare(pair.mine, pair.theirs.latest(16));
  REQUIRE(difference);
  CHECK(difference->sequence == 28);  // of 44 calls, the latest 16 were sent
  CHECK(!difference->mine);
  CHECK(!difference->theirs);
}

TEST_CASE("a difference older than this rank's history is found in part of a peer's calls") {
  Pair pair(all_reduce(1), all_reduce(2), 3, 40);
  const auto sent = pair.theirs.latest(16);  // 29 to 44
  for (std::uint64_t i = 0; i < CallHistory::kept - 10; ++i) {
    pair.mine.begin_collective(all_reduce(8));
    pair.mine.end();  // calls in flight would stay in the history
  }
  REQUIRE(!pair.mine.find(34));
  REQUIRE(pair.mine.find(35));
  const auto difference = compare(pair.mine, sent);
  REQUIRE(difference);
  CHECK(difference->sequence == 34);
  CHECK(!difference->mine);
}

TEST_CASE("another thread reads consistent entries while calls are made") {
  CallHistory history;
  constexpr std::uint64_t calls = 20'000;
  std::thread caller([&] {
    for (std::uint64_t i = 1; i <= calls; ++i) {
      const auto past =
          history.begin_collective({Operation::barrier, Type::u8, Operator::sum, -1, i});
      if (i % 2 == 0) {
        history.end(past.ticket);
      } else {
        history.end_latest(past.ticket);
      }
    }
  });
  std::size_t torn = 0;
  std::uint64_t seen = 0;
  while (seen < calls) {
    for (const auto& past : history.latest(16)) {
      torn += past.call.count != past.sequence || past.fingerprint == past.before ? 1 : 0;
      seen = std::max(seen, past.sequence);
    }
    for (const auto& call : history.record()) torn += call.call.count != call.sequence ? 1 : 0;
    const auto activity = history.activity();
    torn += activity.call.count != activity.sequence ? 1 : 0;
  }
  caller.join();
  CHECK(torn == 0);
  CHECK(!history.activity().in_call);
}

}  // namespace tutti::control::test
