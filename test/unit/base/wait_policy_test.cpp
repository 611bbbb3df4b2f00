// How long a thread polls before it sleeps.
#include "base/wait_policy.hpp"

#include "support/catch.hpp"

namespace tutti::test {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_CASE("a wait spins, polls for a time, and sleeps from then on until something moves") {
  const WaitPolicy::Stages stages{.spins = 5, .spins_without_pause = 2, .limit = milliseconds(2)};
  Wait wait;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < stages.spins; ++i) REQUIRE(wait.may_poll(stages));
    CHECK(!wait.has_lasted(microseconds(0)));
    const auto begin = WaitPolicy::Clock::now();
    while (wait.may_poll(stages))
      REQUIRE(WaitPolicy::Clock::now() - begin < std::chrono::minutes(1));
    CHECK(WaitPolicy::Clock::now() - begin >= stages.limit);
    CHECK(wait.has_lasted(stages.limit));
    CHECK(!wait.may_poll(stages));
    wait.reset();
    CHECK(!wait.has_lasted(microseconds(0)));
  }
}

TEST_CASE("a wait that may not poll sleeps at once, and its time counts") {
  Wait wait;
  CHECK(!wait.may_poll(WaitPolicy::shared_calls(true)));
  CHECK(wait.has_lasted(microseconds(0)));
  wait.reset();
  CHECK(wait.may_poll(WaitPolicy::shared_calls(false)));
  wait.skip_polls();
  CHECK(!wait.may_poll(WaitPolicy::shared_calls(false)));
  wait.reset();
  CHECK(wait.may_poll(WaitPolicy::shared_calls(false)));
}

TEST_CASE("threads that share cores yield and do not spin, others spin first") {
  const WaitPolicy sharing(true);
  const WaitPolicy alone(false);
  for (const bool has_rings : {false, true}) {
    CHECK(sharing.links(has_rings).yields);
    CHECK(sharing.links(has_rings).spins == 0);
    CHECK(alone.links(has_rings).spins > 0);
    // The core may be another program's, too.
    CHECK(alone.links(has_rings).yields);
  }
  CHECK(sharing.own_call().spins == 0);
  CHECK(alone.own_call().spins > 0);
  CHECK(sharing.inline_message().spins == 0);
  CHECK(alone.inline_message().spins >= WaitPolicy::inline_turns);
  CHECK(sharing.ring_polls(false) == 1);
  // Ring buffers and sockets in turns of about the same time.
  CHECK(alone.ring_polls(true) < alone.ring_polls(false));
  CHECK(sharing.inline_polls() == 1);
}

}  // namespace tutti::test
