// Deadlines and the running clock.
#include "tutti/deadline.hpp"

#include <thread>

#include "support/catch.hpp"

namespace tutti::test {

using namespace std::chrono_literals;

TEST_CASE("a deadline of never does not expire") {
  CHECK(Deadline::never().is_never());
  CHECK(!Deadline::never().expired());
  CHECK(Deadline::never().remaining() == 1h);
}

TEST_CASE("a timeout too large for the clock means never") {
  CHECK(Deadline::after(std::chrono::nanoseconds::max()).is_never());
  CHECK(Deadline::after(std::chrono::nanoseconds::max() - 1s).is_never());
  CHECK(!Deadline::after(24h * 366).is_never());
}

TEST_CASE("a deadline counts down and expires") {
  const auto deadline = Deadline::after(30ms);
  CHECK(!deadline.expired());
  CHECK(deadline.remaining() > 0ns);
  CHECK(deadline.remaining() <= 30ms);
  std::this_thread::sleep_for(31ms);
  CHECK(deadline.expired());
  CHECK(deadline.remaining() == 0ns);
}

TEST_CASE("a timeout of zero or less has expired") {
  CHECK(Deadline::after(0ns).expired());
  CHECK(Deadline::after(-1s).expired());
  CHECK(Deadline::after(-1s).remaining() == 0ns);
}

TEST_CASE("a long gap between readings counts as time in which the process was stopped") {
  const auto start = RunningClock::Steady::now();
  RunningClock clock(start);
  CHECK(clock.at(start + 300ms) == start + 300ms);
  CHECK(clock.at(start + 800ms) == start + 800ms);  // a thread may be delayed this long
  CHECK(clock.time_stopped() == 0ns);
  CHECK(clock.at(start + 12800ms) == start + 1300ms);
  CHECK(clock.time_stopped() == 11500ms);
  CHECK(clock.at(start + 13s) == start + 1500ms);
  // A time before the latest reading.
  CHECK(clock.at(start + 12s) == start + 500ms);
  CHECK(clock.at(start + 13400ms) == start + 1900ms);
  CHECK(clock.time_stopped() == 11500ms);
}

TEST_CASE("a deadline on a running clock stops with the clock") {
  const auto now = RunningClock::Steady::now();
  const auto clock = std::make_shared<RunningClock>(now);
  const auto deadline = Deadline::after(5s, clock);
  const auto sooner = deadline.within(1s);
  CHECK(sooner.clock() == clock);
  CHECK(deadline.anew(1h).clock() == clock);
  CHECK(Deadline::after(5s).clock() == nullptr);
  CHECK(deadline.poll_interval() <= 200ms);
  CHECK(sooner.remaining() <= 1s);
  clock->at(now - 20s);  // no effect
  CHECK(clock->time_stopped() == 0ns);
  // As if 20 s had passed without a reading: the remaining time is kept, except for the longest
  // gap.
  const auto stopped = std::make_shared<RunningClock>(now - 20s);
  CHECK(Deadline::after(1s, stopped).remaining() > 500ms);
  CHECK(stopped->time_stopped() >= 19s);
}

TEST_CASE("a deadline on a running clock can be never") {
  const auto clock = std::make_shared<RunningClock>();
  CHECK(Deadline::after(std::chrono::nanoseconds::max(), clock).is_never());
  CHECK(Deadline::after_running(std::chrono::nanoseconds::max()).is_never());
  CHECK(!Deadline::after_running(std::chrono::nanoseconds::max()).expired());
  CHECK(Deadline::after_running(-1s).expired());
}

TEST_CASE("the earlier of two limits applies") {
  const auto deadline = Deadline::after(10s);
  CHECK(deadline.within(1s).remaining() <= 1s);
  CHECK(deadline.within(1h).remaining() <= 10s);
  CHECK(deadline.within(std::chrono::nanoseconds::max()).remaining() <= 10s);
  CHECK(Deadline::never().within(1s).remaining() <= 1s);
  CHECK(Deadline::never().within(std::chrono::nanoseconds::max()).is_never());
}

}  // namespace tutti::test
