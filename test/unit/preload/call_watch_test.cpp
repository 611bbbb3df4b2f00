#include "call_watch.hpp"

#include "support/catch.hpp"

namespace tutti::preload::test {
namespace {

using namespace std::chrono_literals;
using Verdict = CallWatch::Verdict;

/// A communicator that is looked at every 100 ms.
struct Watched {
  /// The first verdict but none, within `duration`; `seen` changes by `step` before each look.
  template <class Step>
  Verdict look_for(CallWatch::Clock::duration duration, Step step) {
    const auto end = now + duration;
    while (now < end) {
      now += 100ms;
      step();
      const auto verdict = watch.look(now, seen);
      if (verdict != Verdict::none) return verdict;
    }
    return Verdict::none;
  }
  Verdict look_for(CallWatch::Clock::duration duration) {
    return look_for(duration, [] {});
  }
  void wait() { seen.waits += 4096; }

  CallWatch::Clock::time_point now{1000s};
  CallWatch watch{60s, now};
  SeenCalls seen;
};

}  // namespace

TEST_CASE("a call that does not end is late once") {
  Watched watched;
  watched.seen.has_open = true;
  CHECK(watched.look_for(59s, [&] { watched.wait(); }) == Verdict::none);
  CHECK(watched.look_for(2s) == Verdict::late);
  CHECK(watched.watch.open_for(watched.now) >= 60s);
  CHECK(watched.look_for(200s) == Verdict::none);
  ++watched.seen.ended;
  CHECK(watched.look_for(59s) == Verdict::none);
  CHECK(watched.look_for(2s) == Verdict::late);
}

TEST_CASE("calls that end are not late, though others are always open") {
  Watched watched;
  watched.seen.has_open = true;
  CHECK(watched.look_for(200s, [&] { ++watched.seen.ended; }) == Verdict::none);
}

TEST_CASE("a kernel that waits for a second after a rank's end waits in vain") {
  Watched watched;
  const bool in_graph = GENERATE(false, true);
  watched.seen.has_open = !in_graph;
  CHECK(watched.look_for(30s, [&] { watched.wait(); }) == Verdict::none);
  watched.seen.has_ended_rank = true;
  CHECK(watched.look_for(900ms, [&] { watched.wait(); }) == Verdict::none);
  CHECK(watched.look_for(300ms, [&] { watched.wait(); }) == Verdict::lost);
}

TEST_CASE("looks come faster once a rank has ended") {
  Watched watched;
  watched.seen.has_open = true;
  for (int i = 0; i < 30; ++i) {
    watched.now += 1s;
    watched.wait();
    CHECK(watched.watch.look(watched.now, watched.seen) == Verdict::none);
  }
  watched.seen.has_ended_rank = true;
  CHECK(watched.look_for(1s, [&] { watched.wait(); }) == Verdict::none);
  CHECK(watched.look_for(200ms, [&] { watched.wait(); }) == Verdict::lost);
}

TEST_CASE("short waits after a rank's end are not lost") {
  Watched watched;
  watched.seen.has_open = true;
  watched.seen.has_ended_rank = true;
  CHECK(watched.look_for(30s, [&, looks = 0]() mutable {
    watched.wait();
    if (++looks % 5 == 0) ++watched.seen.ended;
  }) == Verdict::none);
}

TEST_CASE("a rank's end alone loses nothing") {
  Watched watched;
  watched.seen.has_ended_rank = true;
  SECTION("while nothing is open") {
    CHECK(watched.look_for(60s) == Verdict::none);
  }
  SECTION("while a call is behind other work of the program") {
    watched.seen.has_open = true;
    watched.seen.has_lost_rank = true;
    CHECK(watched.look_for(50s) == Verdict::none);
  }
}

TEST_CASE("a call that NCCL has taken is lost after a longer time, since nobody sees it wait") {
  Watched watched;
  watched.seen.has_open = true;
  watched.seen.has_open_at_nccl = true;
  watched.seen.has_ended_rank = true;
  // Who ends in order has sent what the call needs; it may be behind other work.
  CHECK(watched.look_for(50s) == Verdict::none);
  ++watched.seen.ended;
  CHECK(watched.look_for(100ms) == Verdict::none);
  watched.seen.has_lost_rank = true;
  CHECK(watched.look_for(9900ms) == Verdict::none);
  CHECK(watched.look_for(300ms) == Verdict::lost);
}

TEST_CASE("a device that does not answer tells nothing") {
  Watched watched;
  watched.seen.has_open = true;
  watched.seen.has_ended_rank = true;
  watched.seen.has_lost_rank = GENERATE(false, true);
  CHECK(watched.look_for(500ms, [&] { watched.wait(); }) == Verdict::none);
  watched.seen.has_answered = false;
  SECTION("for a moment: a kernel that waited before and waits after it, has waited") {
    CHECK(watched.look_for(5s) == Verdict::none);
    watched.seen.has_answered = true;
    CHECK(watched.look_for(100ms, [&] { watched.wait(); }) == Verdict::lost);
  }
  SECTION("for a moment: a call may have ended meanwhile") {
    CHECK(watched.look_for(5s) == Verdict::none);
    watched.seen.has_answered = true;
    ++watched.seen.ended;
    CHECK(watched.look_for(900ms, [&] { watched.wait(); }) == Verdict::none);
  }
  SECTION("for long") {
    const auto due = watched.seen.has_lost_rank ? Verdict::lost : Verdict::none;
    CHECK(watched.look_for(11s) == due);
  }
}

TEST_CASE("a communicator without calls rests") {
  Watched watched;
  watched.seen.has_open = true;
  watched.wait();
  CHECK(watched.look_for(100ms) == Verdict::none);
  watched.now += 1000s;
  watched.watch.rest(watched.now);
  watched.seen.has_ended_rank = true;
  CHECK(watched.look_for(900ms, [&] { watched.wait(); }) == Verdict::none);
}

}  // namespace tutti::preload::test
