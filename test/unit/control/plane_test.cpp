// Control planes of several ranks in one process, linked over loopback.
#include "control/plane.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "support/catch.hpp"
#include "support/secret.hpp"
#include "tutti/version.hpp"

namespace tutti::control::test {

using namespace std::chrono_literals;

namespace {

// Enough for a busy machine; nothing here waits that long unless it fails.
constexpr auto limit = 20s;

/// The listeners of a job's ranks, open before any rank starts.
class Ranks {
 public:
  explicit Ranks(int size) {
    for (int rank = 0; rank < size; ++rank) {
      listeners_.push_back(rendezvous::open_listeners({}));
      rendezvous::PeerInfo info;
      info.version = version_string;
      // Hosts of their own, so that no rank watches the pid of this process.
      const auto name = "n" + std::to_string(rank + 1);
      info.host = {"identity of " + name, name, "pids of " + name};
      info.pid = static_cast<std::uint32_t>(::getpid());
      info.open_files_limit = 1024;
      for (const auto& listener : listeners_.back()) info.addresses.push_back(listener.address);
      infos_.push_back(std::move(info));
    }
  }

  /// As rank `rank` sees the job, where `unreachable` listens at `elsewhere`. Once for each rank.
  rendezvous::PeerExchange exchange(int rank, int unreachable = -1,
                                    const rendezvous::SocketAddress& elsewhere = {}) {
    auto infos = infos_;
    if (unreachable >= 0) infos[static_cast<std::size_t>(unreachable)].addresses = {elsewhere};
    const auto size = static_cast<int>(infos.size());
    return {rendezvous::Peers(rank, std::move(infos), {}),
            {.secret = tutti::test::known_secret(), .epoch = 0, .rank = rank, .size = size},
            std::move(listeners_[static_cast<std::size_t>(rank)]),
            {}};
  }

  [[nodiscard]] const rendezvous::SocketAddress& address(int rank) const {
    return infos_[static_cast<std::size_t>(rank)].addresses.front();
  }

 private:
  std::vector<std::vector<rendezvous::Listener>> listeners_;
  std::vector<rendezvous::PeerInfo> infos_;
};

FailureReport abort_by(int rank, const std::string& sentence) {
  return {.code = ErrorCode::aborted, .failed_ranks = {rank}, .sentence = sentence, .origin = rank};
}

bool fails_within(const FailureDetector& detector, std::chrono::nanoseconds time) {
  const auto deadline = Deadline::after(time);
  while (!detector.job_failed() && !deadline.expired()) std::this_thread::sleep_for(1ms);
  return detector.job_failed();
}

/// The control plane of one rank. It leaves without waiting for the others.
struct Member {
  Log log;
  Plane plane;

  explicit Member(rendezvous::PeerExchange exchanged, bool has_thread = true, Log::Sink sink = {})
      : log(
            LogLevel::info, sink ? std::move(sink) : [](LogLevel, const std::string&) {}),
        plane(std::move(exchanged), Environment(), log, Deadline::after(limit),
              has_thread ? std::make_unique<ReservedThread>("for a test") : nullptr) {}
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member() { plane.retire(); }
};

}  // namespace

TEST_CASE("the planes of three ranks link and agree on a failure") {
  Ranks ranks(3);
  Member zero(ranks.exchange(0));
  Member one(ranks.exchange(1));
  Member two(ranks.exchange(2));
  for (auto* const member : {&zero, &one, &two}) {
    member->plane.wait_until_linked(Deadline::after(limit));
  }
  const auto error = one.plane.detector().report_and_wait(abort_by(1, "rank 1 gives up"));
  CHECK(error.sentence() == "rank 1 gives up");
  for (auto* const member : {&zero, &two}) {
    REQUIRE(fails_within(member->plane.detector(), limit));
    CHECK(member->plane.detector().agreed_error().sentence() == "rank 1 gives up");
  }
}

TEST_CASE("a rank that leaves has departed, and is not lost") {
  Ranks ranks(2);
  Member zero(ranks.exchange(0));
  {
    Member one(ranks.exchange(1));
    one.plane.wait_until_linked(Deadline::after(limit));
    zero.plane.wait_until_linked(Deadline::after(limit));
  }
  const auto deadline = Deadline::after(limit);
  while (!zero.plane.detector().has_departed(1) && !deadline.expired()) {
    std::this_thread::sleep_for(1ms);
  }
  CHECK(zero.plane.detector().has_departed(1));
  CHECK_FALSE(zero.plane.detector().job_failed());
}

TEST_CASE("set-up without a peer names it at the deadline") {
  Ranks ranks(2);
  Member zero(ranks.exchange(0));
  try {
    zero.plane.wait_until_linked(Deadline::after(50ms));
    FAIL("rank 1 does not run");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::timeout);
    CHECK(error.failed_ranks() == std::vector{1});
    CHECK(error.sentence().find("no control connection with rank 1 (n2, pid ") !=
          std::string::npos);
  }
}

TEST_CASE("a data connection that one rank requests arrives at both") {
  Ranks ranks(2);
  Member zero(ranks.exchange(0));
  Member one(ranks.exchange(1));
  one.plane.connector().request(0, Deadline::after(limit));
  const auto take = [](Plane& plane) {
    std::vector<DataConnection> taken;
    const auto deadline = Deadline::after(limit);
    while (taken.empty() && !deadline.expired()) {
      std::this_thread::sleep_for(1ms);
      taken = plane.connector().take();
    }
    return taken;
  };
  const auto dialed = take(one.plane);
  REQUIRE(dialed.size() == 1);
  CHECK(dialed[0].dialed_here);
  CHECK(dialed[0].failure.empty());
  CHECK(dialed[0].connection.peer == 0);
  const auto accepted = take(zero.plane);
  REQUIRE(accepted.size() == 1);
  CHECK_FALSE(accepted[0].dialed_here);
  CHECK(accepted[0].connection.peer == 1);
}

namespace {

/// The data connections that a rank has got.
struct Collected {
  Member& member;
  std::vector<DataConnection> all;

  explicit Collected(Member& of) : member(of) {}
  void take() {
    for (auto& connection : member.plane.connector().take()) all.push_back(std::move(connection));
  }
};

bool wait_for_one_each(Collected& one, Collected& other) {
  const auto deadline = Deadline::after(limit);
  while ((one.all.empty() || other.all.empty()) && !deadline.expired()) {
    std::this_thread::sleep_for(1ms);
    one.take();
    other.take();
  }
  return !one.all.empty() && !other.all.empty();
}

}  // namespace

TEST_CASE("ranks of different hosts that request a data connection at once get one") {
  for (int round = 0; round < 20; ++round) {
    Ranks ranks(2);
    Member zero(ranks.exchange(0));
    Member one(ranks.exchange(1));
    // Either order, and at once.
    auto* const first = round % 2 == 0 ? &zero : &one;
    auto* const second = round % 2 == 0 ? &one : &zero;
    first->plane.connector().request(first == &zero ? 1 : 0, Deadline::after(limit));
    if (round % 4 >= 2) std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    second->plane.connector().request(second == &zero ? 1 : 0, Deadline::after(limit));
    Collected at_zero(zero);
    Collected at_one(one);
    REQUIRE(wait_for_one_each(at_zero, at_one));
    // A second one would have time to arrive, and a later request opens none.
    zero.plane.connector().request(1, Deadline::after(5ms));
    one.plane.connector().request(0, Deadline::after(5ms));
    std::this_thread::sleep_for(20ms);
    at_zero.take();
    at_one.take();
    REQUIRE(at_zero.all.size() == 1);
    REQUIRE(at_one.all.size() == 1);
    const auto& here = at_zero.all[0].connection;
    const auto& there = at_one.all[0].connection;
    REQUIRE(here.socket);
    REQUIRE(there.socket);
    CHECK(at_zero.all[0].dialed_here != at_one.all[0].dialed_here);
    // Both ends are the same connection.
    REQUIRE(::send(here.socket.get(), "x", 1, 0) == 1);
    char byte = 0;
    const auto deadline = Deadline::after(limit);
    while (::recv(there.socket.get(), &byte, 1, 0) != 1 && !deadline.expired())
      std::this_thread::sleep_for(1ms);
    CHECK(byte == 'x');
  }
}

TEST_CASE("a rank that can't reach another one accepts its data connection") {
  const auto silent = rendezvous::open_listeners({});  // takes connections, and says nothing
  Ranks ranks(2);
  Member zero(ranks.exchange(0, 1, silent.at(0).address));
  Member one(ranks.exchange(1));
  zero.plane.connector().request(1, Deadline::after(limit));
  std::this_thread::sleep_for(20ms);
  one.plane.connector().request(0, Deadline::after(limit));
  Collected at_zero(zero);
  Collected at_one(one);
  REQUIRE(wait_for_one_each(at_zero, at_one));
  CHECK(at_zero.all[0].connection.socket);
  CHECK_FALSE(at_zero.all[0].dialed_here);
  CHECK(at_one.all[0].dialed_here);
}

TEST_CASE("ranks answer queries of their state, and compare calls") {
  Ranks ranks(2);
  Member zero(ranks.exchange(0));
  Member one(ranks.exchange(1));
  zero.plane.wait_until_linked(Deadline::after(limit));
  one.plane.wait_until_linked(Deadline::after(limit));
  const auto mine = zero.plane.histories().open(Group::whole_job(0, 2));
  const auto theirs = one.plane.histories().open(Group::whole_job(1, 2));
  theirs->begin_collective({.operation = Operation::barrier});
  const auto answers = zero.plane.statuses().ask(0, limit);
  REQUIRE(answers.contains(1));
  CHECK(answers.at(1).activity.in_call);
  CHECK(answers.at(1).activity.call.operation == Operation::barrier);

  mine->begin_collective({.operation = Operation::broadcast, .type = Type::u8, .count = 1});
  zero.plane.histories().send_latest_to(1, 0);
  REQUIRE(fails_within(one.plane.detector(), limit));
  CHECK(one.plane.detector().agreed_error().code() == ErrorCode::mismatch);
}

TEST_CASE("a caller does not hang with its control thread") {
  std::promise<void> stuck;
  std::promise<void> release;
  const auto released = release.get_future().share();
  Ranks ranks(2);
  const auto address = ranks.address(1);
  Member zero(ranks.exchange(0));
  std::atomic<bool> is_stuck{false};
  Member one(ranks.exchange(1), true, [&](LogLevel, const std::string&) {
    if (!is_stuck.exchange(true)) stuck.set_value();
    released.wait_for(limit);
  });
  one.plane.wait_until_linked(Deadline::after(limit));
  // The log line about an unauthenticated connection blocks the control thread.
  {
    const Descriptor client(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(client.get(), address.get(), address.length()) == 0);
    const std::string text(200, 'x');
    REQUIRE(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL) > 0);
    REQUIRE(stuck.get_future().wait_for(limit) == std::future_status::ready);
  }
  const auto error = one.plane.detector().report_and_wait(abort_by(1, "rank 1 gives up"), 50ms);
  CHECK(error.sentence() == "rank 1 gives up");
  CHECK(one.plane.detector().job_failed());
  CHECK(one.plane.statuses().ask(0, 50ms).empty());
  release.set_value();
  // Its report was not lost.
  CHECK(fails_within(zero.plane.detector(), limit));
}

TEST_CASE("a rank without a thread also tells a neighbour whose link is late") {
  // Rank 1 decides alone, and neither it nor rank 2 reaches the other. So rank 2, which starts when
  // rank 0 knows the failure, hears it by its link with rank 0 or never.
  Ranks ranks(3);
  const auto deaf = rendezvous::open_listeners({});
  Member one(ranks.exchange(1, 2, deaf[0].address));
  Member zero(ranks.exchange(0), false);
  auto ended = std::async(std::launch::async, [&] {
    return zero.plane.end_without_thread(abort_by(0, "no thread"), Deadline::after(limit));
  });
  static_cast<void>(one.plane.detector().report_and_wait(abort_by(1, "decided by rank 1"), 50ms));
  REQUIRE(fails_within(zero.plane.detector(), limit));
  // By now a rank 0 that did not wait for rank 2 would have ended.
  std::this_thread::sleep_for(50ms);
  Member two(ranks.exchange(2));
  REQUIRE(fails_within(two.plane.detector(), limit));
  CHECK(ended.get().sentence() == two.plane.detector().agreed_error().sentence());
}

}  // namespace tutti::control::test
