// Comparison of calls between ranks that share no link.
#include "control/call_comparison.hpp"

#include <algorithm>

#include "job_peers.hpp"
#include "support/catch.hpp"

namespace tutti::control::test {

using namespace std::chrono_literals;

namespace {

constexpr auto min_wait = 50ms;
const CallSignature barrier{.operation = Operation::barrier};

CallSignature broadcast(std::uint64_t count) {
  return {.operation = Operation::broadcast, .type = Type::u8, .root = 0, .count = count};
}

/// A rank of a job of two. What it sends and reports is kept.
struct Rank {
  rendezvous::Peers peers;
  CallHistories histories{false, [](int, std::uint32_t) {}};
  std::vector<std::pair<int, Bytes>> sent;
  std::vector<FailureReport> reports;
  CallComparison comparison{
      peers,
      histories,
      {.send = [this](int peer, Bytes calls) { sent.emplace_back(peer, std::move(calls)); },
       .report = [this](const FailureReport& report) { reports.push_back(report); }}};
  std::shared_ptr<CallHistory> history;

  explicit Rank(int rank)
      : peers(job_peers(rank, 2)), history(histories.open(Group::whole_job(rank, 2))) {}
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void call(const CallSignature& call) { history->end(history->begin_collective(call).ticket); }
  void tick_late() { comparison.tick(std::chrono::steady_clock::now() + 1h, min_wait); }
  /// Sends its latest calls of communicator 0 to `other`.
  void send_to(Rank& other) {
    comparison.send_latest_to(other.peers.rank(), 0);
    other.comparison.on_calls(peers.rank(), decode_calls(sent.back().second).value());
  }
};

}  // namespace

TEST_CASE("a call that lasts is sent to the neighbours, once") {
  Rank rank(0);
  rank.history->begin_collective(barrier);
  rank.comparison.tick(std::chrono::steady_clock::now(), 1h);
  CHECK(rank.sent.empty());
  rank.tick_late();
  REQUIRE(rank.sent.size() == 1);
  CHECK(rank.sent[0].first == 1);
  const auto message = decode_calls(rank.sent[0].second).value();
  CHECK(message.communicator == 0);
  REQUIRE(message.calls.size() == 1);
  CHECK(message.calls[0].call == barrier);
  rank.tick_late();
  CHECK(rank.sent.size() == 1);
  rank.history->end();
  rank.history->begin_collective(barrier);
  rank.tick_late();
  CHECK(rank.sent.size() == 2);
}

TEST_CASE("a rank outside calls sends nothing, nor one whose communicator is closed") {
  Rank rank(0);
  rank.call(barrier);
  rank.tick_late();
  CHECK(rank.sent.empty());
  rank.histories.close(0);
  rank.comparison.send_latest_to(1, 0);
  CHECK(rank.sent.empty());
}

TEST_CASE("equal calls are no mismatch; different ones are reported with both") {
  Rank zero(0);
  Rank one(1);
  zero.call(broadcast(4));
  one.call(broadcast(4));
  zero.send_to(one);
  CHECK(one.reports.empty());
  zero.call(broadcast(4));
  one.call(broadcast(5));
  zero.send_to(one);
  REQUIRE(one.reports.size() == 1);
  const auto& report = one.reports[0];
  CHECK(report.code == ErrorCode::mismatch);
  CHECK(report.failed_ranks == std::set{0, 1});
  CHECK(report.origin == 1);
  CHECK(report.sentence ==
        "the ranks made different calls, call 2: rank 0 (n1, pid 100) called broadcast of 4 u8 "
        "from rank 0, rank 1 (n2, pid 100) called broadcast of 5 u8 from rank 0");
}

TEST_CASE("calls that this rank has not made yet are compared when it has") {
  Rank zero(0);
  Rank one(1);
  zero.call(barrier);
  zero.call(barrier);
  zero.send_to(one);
  one.tick_late();
  CHECK(one.reports.empty());
  one.call(barrier);
  one.tick_late();
  CHECK(one.reports.empty());
  one.call(broadcast(1));
  one.tick_late();
  CHECK(one.reports.size() == 1);
  one.tick_late();
  CHECK(one.reports.size() == 1);
}

TEST_CASE("a difference older than both histories is reported without the calls") {
  Rank zero(0);
  Rank one(1);
  zero.call(broadcast(4));
  one.call(broadcast(5));
  for (std::size_t i = 0; i < CallHistory::kept + 16; ++i) {
    zero.call(barrier);
    one.call(barrier);
  }
  zero.send_to(one);
  REQUIRE(one.reports.size() == 1);
  CHECK(one.reports[0].sentence.find("have made different calls, at call") != std::string::npos);
}

TEST_CASE("calls in an unknown communicator, or of a rank outside it, are dropped") {
  Rank zero(0);
  Rank one(1);
  zero.call(broadcast(4));
  one.call(broadcast(5));
  one.histories.close(0);
  zero.send_to(one);
  one.history = one.histories.open(Group::whole_job(1, 2));
  one.call(broadcast(5));
  one.tick_late();
  CHECK(one.reports.empty());

  one.histories.open({.id = 0, .rank = 0, .world = {1}});
  zero.send_to(one);
  CHECK(one.reports.empty());
}

TEST_CASE("calls that differ in the algorithm only are told apart by it") {
  auto ring = broadcast(4);
  ring.algorithm = algorithm_id("chain");
  auto tree = broadcast(4);
  tree.algorithm = algorithm_id("binomial");
  const auto report = mismatch(job_peers(1, 2), Group::whole_job(1, 2), 3, 1, tree, 0, ring);
  CHECK(report.sentence ==
        "the ranks made different calls, call 3: rank 0 (n1, pid 100) called broadcast of 4 u8 "
        "from rank 0 by the algorithm chain, rank 1 (n2, pid 100) called broadcast of 4 u8 from "
        "rank 0 by the algorithm binomial");
}

}  // namespace tutti::control::test
