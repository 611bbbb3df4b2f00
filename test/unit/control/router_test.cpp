// Flooding and replies over the graph of control links.
#include "control/router.hpp"

#include <algorithm>
#include <tuple>

#include "simulated_network.hpp"
#include "support/catch.hpp"

namespace tutti::control::test {

namespace {

/// A job in which a rank sends one reply to each request.
class Questions {
 public:
  Questions(int size, std::uint64_t seed)
      : network_(size, seed,
                 [this](int rank, const ControlMessage& message) { on_message(rank, message); }) {}

  void kill(int rank) {
    network_.kill(rank);
    network_.run();
  }
  void ask(int rank) { network_.send(rank, ControlMessageKind::status_request, all_ranks, {}); }
  void run() { network_.run(); }
  void forget() { got_proposal_.clear(); }

  /// Empty if each living rank has received each request of `asking` once, and each of those has
  /// one reply from all other living ranks.
  [[nodiscard]] std::string fault(const std::vector<int>& asking) const {
    for (const int asker : asking) {
      for (int rank = 0; rank < network_.size(); ++rank) {
        const int expected = rank == asker || network_.is_dead(rank) ? 0 : 1;
        if (count(ControlMessageKind::status_request, asker, rank) != expected) {
          return text("heard", count(ControlMessageKind::status_request, asker, rank), asker, rank);
        }
        if (count(ControlMessageKind::status, rank, asker) != expected) {
          return text("answered", count(ControlMessageKind::status, rank, asker), asker, rank);
        }
      }
    }
    return {};
  }
  [[nodiscard]] std::uint64_t sent() const { return network_.sent(); }

 private:
  void on_message(int rank, const ControlMessage& message) {
    ++got_proposal_[{message.kind, message.origin, rank}];
    if (message.kind != ControlMessageKind::status_request) return;
    network_.send(rank, ControlMessageKind::status, message.origin, Bytes(3, std::byte{42}));
  }
  [[nodiscard]] int count(ControlMessageKind kind, int origin, int rank) const {
    const auto found = got_proposal_.find({kind, origin, rank});
    return found == got_proposal_.end() ? 0 : found->second;
  }
  static std::string text(const std::string& what, int times, int asker, int rank) {
    return "rank " + std::to_string(asker) + "'s question was " + what + " " +
           std::to_string(times) + " times by rank " + std::to_string(rank);
  }

  SimulatedNetwork network_;
  std::map<std::tuple<ControlMessageKind, int, int>, int> got_proposal_;
};

std::vector<int> all_but(int size, const std::vector<int>& dead) {
  std::vector<int> result;
  for (int rank = 0; rank < size; ++rank) {
    if (std::find(dead.begin(), dead.end(), rank) == dead.end()) result.push_back(rank);
  }
  return result;
}

void try_questions(int size, std::uint64_t seed, const std::vector<int>& dead) {
  Questions questions(size, seed);
  // Gives each rank routes to all others, some through the dead ranks.
  for (int rank = 0; rank < size; ++rank) questions.ask(rank);
  questions.run();
  questions.forget();
  for (const int rank : dead) questions.kill(rank);
  const auto living = all_but(size, dead);
  for (const int rank : living) questions.ask(rank);
  questions.run();
  const auto fault = questions.fault(living);
  if (fault.empty()) return;
  INFO("size " << size << ", seed " << seed);
  FAIL(fault);
}

}  // namespace

TEST_CASE("a flood reaches every rank once, and every reply arrives once") {
  for (const int size : {2, 3, 5, 8, 16, 33}) {
    const std::uint64_t seeds = size < 16 ? 50 : 5;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) try_questions(size, seed, {});
  }
}

TEST_CASE("floods and replies are routed around two dead ranks") {
  for (const int size : {3, 5, 8}) {
    for (int first = 0; first < size; ++first) {
      for (int second = first + 1; second < size; ++second) {
        for (std::uint64_t seed = 0; seed < 5; ++seed) try_questions(size, seed, {first, second});
      }
    }
  }
  for (const int size : {16, 33}) {
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      const auto first = static_cast<int>(seed) * 3;
      try_questions(size, seed, {first, (first + 1) % size});
      try_questions(size, seed, {first, (first + size / 2) % size});
    }
  }
}

TEST_CASE("a reply takes one route instead of flooding") {
  Questions questions(33, 1);
  questions.ask(0);
  questions.run();
  std::uint64_t links = 0;
  for (int rank = 0; rank < 33; ++rank) links += neighbours(rank, 33).size();
  // The flood uses each link at most twice, each reply a few hops.
  CHECK(questions.sent() < links + 33 * 6);
}

namespace {

struct Hop {
  int to;
  ControlMessage message;
};

/// A router whose links record. It is rank 0 of 9, linked with 1, 2 and 3.
struct OneRouter {
  std::vector<int> linked{1, 2, 3};
  std::vector<Hop> passed;
  std::vector<ControlMessage> delivered;
  Router router{
      0,
      9,
      {.linked = [this] { return linked; },
       .pass =
           [this](int to, const ControlMessage& message) {
             passed.push_back({to, message});
           },
       .deliver = [this](const ControlMessage& message) { delivered.push_back(message); }}};

  void arrives(int by, int origin, int target, std::uint32_t serial) {
    router.on_message(by, {ControlMessageKind::evidence, origin, target, serial, {}});
  }
};

}  // namespace

TEST_CASE("a message to this rank is delivered at once") {
  OneRouter one;
  one.router.send(ControlMessageKind::status, 0, {});
  CHECK(one.delivered.size() == 1);
  CHECK(one.passed.empty());
}

TEST_CASE("a flood is forwarded to all neighbours except its sender") {
  OneRouter one;
  one.arrives(2, 7, all_ranks, 1);
  REQUIRE(one.passed.size() == 2);
  CHECK(one.passed[0].to == 1);
  CHECK(one.passed[1].to == 3);
  CHECK(one.delivered.size() == 1);
}

TEST_CASE("duplicates are dropped, reordered messages are not") {
  OneRouter one;
  for (const std::uint32_t serial : {5, 3, 5, 4, 3, 68, 6, 5, 67, 68}) {
    one.arrives(1, 7, all_ranks, serial);
  }
  std::vector<std::uint32_t> serials;
  for (const auto& message : one.delivered) serials.push_back(message.serial);
  CHECK(serials == std::vector<std::uint32_t>{5, 3, 4, 68, 6, 67});
}

TEST_CASE("serials of different ranks are independent") {
  OneRouter one;
  one.arrives(1, 7, all_ranks, 5);
  one.arrives(1, 6, all_ranks, 5);
  CHECK(one.delivered.size() == 2);
}

TEST_CASE("a message older than the window of serials is dropped") {
  OneRouter one;
  one.arrives(1, 7, all_ranks, 100);
  one.arrives(1, 7, all_ranks, 37);  // 63 older: within the window
  one.arrives(1, 7, all_ranks, 36);
  REQUIRE(one.delivered.size() == 2);
  CHECK(one.delivered[1].serial == 37);
  one.arrives(1, 7, all_ranks, 1'000'000);
  one.arrives(1, 7, all_ranks, 1'000'000);
  CHECK(one.delivered.size() == 3);
}

TEST_CASE("this rank's own message is dropped when it comes back") {
  OneRouter one;
  one.router.send(ControlMessageKind::evidence, all_ranks, {});
  one.passed.clear();
  one.arrives(1, 0, all_ranks, 1);
  CHECK(one.delivered.empty());
  CHECK(one.passed.empty());
}

TEST_CASE("a message for another rank goes to it, along the reverse path, or to all") {
  OneRouter one;
  one.router.send(ControlMessageKind::status, 2, {});  // a neighbour
  REQUIRE(one.passed.size() == 1);
  CHECK(one.passed[0].to == 2);

  one.arrives(3, 7, all_ranks, 1);
  one.passed.clear();
  one.router.send(ControlMessageKind::status, 7, {});  // its latest message came from 3
  REQUIRE(one.passed.size() == 1);
  CHECK(one.passed[0].to == 3);

  one.passed.clear();
  one.arrives(3, 6, 7, 1);  // it must not go back to 3
  REQUIRE(one.passed.size() == 2);
  CHECK(one.passed[0].to == 1);
  CHECK(one.passed[1].to == 2);

  one.passed.clear();
  one.linked = {1, 2};
  one.router.send(ControlMessageKind::status, 7, {});  // that link is closed
  CHECK(one.passed.size() == 2);

  one.passed.clear();
  one.arrives(1, 6, 8, 2);  // for a rank without a known route
  REQUIRE(one.passed.size() == 1);
  CHECK(one.passed[0].to == 2);
  CHECK(one.delivered.size() == 1);  // only 7's flood
}

}  // namespace tutti::control::test
