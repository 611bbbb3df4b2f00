// The call histories of a rank, and its activity from the view of one communicator.
#include "control/call_histories.hpp"

#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

const CallSignature barrier{.operation = Operation::barrier};
const CallSignature broadcast{.operation = Operation::broadcast, .type = Type::u8, .count = 4};

Group group(std::uint32_t id) {
  return {.id = id, .rank = 0, .world = {0, 1}};
}

/// Histories whose requests to the control thread are recorded.
struct Scene {
  std::vector<std::pair<int, std::uint32_t>> sent;
  CallHistories histories{false, [this](int peer, std::uint32_t communicator) {
                            sent.emplace_back(peer, communicator);
                          }};
};

}  // namespace

TEST_CASE("a history is found from open() to close()") {
  Scene scene;
  auto& histories = scene.histories;
  CHECK(histories.find(3) == nullptr);
  const auto third = histories.open(group(3));
  const auto first = histories.open(group(1));
  CHECK(histories.find(3) == third);
  CHECK(third->group().id == 3);
  CHECK(histories.all() == std::vector{first, third});
  histories.close(3);
  histories.close(3);  // harmless
  CHECK(histories.find(3) == nullptr);
  CHECK(histories.all() == std::vector{first});
  third->begin_collective(barrier);  // its owner may still use it
}

TEST_CASE("a call in progress is the rank's activity, in this communicator first") {
  Scene scene;
  auto& histories = scene.histories;
  const auto zero = histories.open(group(0));
  const auto one = histories.open(group(1));
  CHECK_FALSE(histories.activity_seen_from(0).in_call);

  zero->end(zero->begin_collective(barrier).ticket);
  const auto ticket = one->begin_collective(broadcast).ticket;
  const auto from_zero = histories.activity_seen_from(0);
  CHECK(from_zero.in_call);
  CHECK(from_zero.elsewhere);
  CHECK(from_zero.call == broadcast);
  CHECK(from_zero.sequence == 1);  // of communicator 0
  const auto from_one = histories.activity_seen_from(1);
  CHECK(from_one.in_call);
  CHECK_FALSE(from_one.elsewhere);

  zero->begin_collective(barrier);
  CHECK(histories.activity_seen_from(0).call == barrier);
  CHECK_FALSE(histories.activity_seen_from(0).elsewhere);
  CHECK(histories.activity_seen_from(0).sequence == 2);

  one->end(ticket);
  const auto from_unknown = histories.activity_seen_from(7);
  CHECK(from_unknown.in_call);
  CHECK(from_unknown.elsewhere);
  CHECK(from_unknown.call == barrier);
  CHECK(from_unknown.sequence == 0);
}

TEST_CASE("have_completed_call() counts no call in progress") {
  Scene scene;
  auto& histories = scene.histories;
  CHECK_FALSE(histories.have_completed_call());
  const auto history = histories.open(group(0));
  const auto ticket = history->begin_collective(barrier).ticket;
  CHECK_FALSE(histories.have_completed_call());
  history->end(ticket);
  CHECK(histories.have_completed_call());
  history->begin_collective(barrier);
  CHECK(histories.have_completed_call());
}

TEST_CASE("send_latest_to() is a request to the control thread") {
  Scene scene;
  scene.histories.send_latest_to(1, 5);
  CHECK(scene.sent == std::vector<std::pair<int, std::uint32_t>>{{1, 5}});
}

}  // namespace tutti::control::test
