// Queries of the other ranks' state, without a control thread.
#include "control/status_exchange.hpp"

#include <optional>

#include "job_peers.hpp"
#include "support/catch.hpp"

namespace tutti::control::test {

using namespace std::chrono_literals;

namespace {

Status at_call(std::uint64_t sequence) {
  Status status;
  status.activity.sequence = sequence;
  return status;
}

/// Rank 0 of 3. `on_request` stands for the control thread and the other ranks' answers.
struct Scene {
  rendezvous::Peers peers = job_peers(0, 3);
  Wakeup wakeup;
  std::function<void(std::uint32_t communicator)> on_request = [](std::uint32_t) {};
  CallHistories histories{false, [](int, std::uint32_t) {}};
  DataSockets data_sockets;
  FailureDetector detector{
      peers,
      std::make_shared<RunningClock>(),
      wakeup,
      {.report = [](const FailureReport&) {}, .decide = [](const FailureReport&) {}},
      [](const std::string&) {}};
  StatusExchange statuses{detector, histories, data_sockets,
                          [this](std::uint32_t communicator) { on_request(communicator); }};
};

// So long that a test which waits for it fails by its own limit.
constexpr auto forever = std::chrono::milliseconds(1h);

}  // namespace

TEST_CASE("ask() returns as soon as all other ranks have answered") {
  Scene scene;
  std::optional<std::uint32_t> asked;
  scene.on_request = [&](std::uint32_t communicator) {
    asked = communicator;
    scene.statuses.on_status(2, communicator, at_call(5));
    scene.statuses.on_status(1, communicator, at_call(4));
  };
  const auto answers = scene.statuses.ask(7, forever);
  CHECK(asked == 7);
  REQUIRE(answers.size() == 2);
  CHECK(answers.at(1).activity.sequence == 4);
  CHECK(answers.at(2).activity.sequence == 5);
}

TEST_CASE("ranks that do not answer within the limit are missing") {
  Scene scene;
  scene.on_request = [&](std::uint32_t communicator) {
    scene.statuses.on_status(2, communicator, at_call(5));
  };
  const auto answers = scene.statuses.ask(0, 20ms);
  CHECK(answers.size() == 1);
  CHECK(answers.contains(2));
}

TEST_CASE("ask() does not wait for ranks that have left") {
  Scene scene;
  scene.on_request = [&](std::uint32_t communicator) {
    scene.statuses.on_status(2, communicator, at_call(5));
    scene.detector.on_departure(1);
    scene.statuses.on_change();
  };
  CHECK(scene.statuses.ask(0, forever).size() == 1);
}

TEST_CASE("an agreed failure ends ask()") {
  Scene scene;
  scene.on_request = [&](std::uint32_t) {
    scene.detector.on_decision(
        {.code = ErrorCode::aborted, .failed_ranks = {1}, .sentence = "over", .origin = 1});
    scene.statuses.on_change();
  };
  CHECK(scene.statuses.ask(0, forever).empty());
}

TEST_CASE("a late answer to an earlier query of another communicator does not count") {
  Scene scene;
  static_cast<void>(scene.statuses.ask(1, 0ms));
  scene.on_request = [&](std::uint32_t communicator) {
    scene.statuses.on_status(1, 1, at_call(9));
    scene.statuses.on_status(2, communicator, at_call(5));
  };
  const auto answers = scene.statuses.ask(2, 20ms);
  CHECK(answers.size() == 1);
  CHECK(answers.contains(2));
}

TEST_CASE("the own state is that of the communicator") {
  Scene scene;
  const auto history = scene.histories.open(Group::whole_job(0, 3));
  history->begin_collective({.operation = Operation::barrier});
  const auto own = scene.statuses.own(0);
  CHECK(own.activity.in_call);
  CHECK(own.activity.call.operation == Operation::barrier);
  CHECK(own.unacknowledged.empty());
  CHECK(scene.statuses.own(8).activity.elsewhere);
}

}  // namespace tutti::control::test
