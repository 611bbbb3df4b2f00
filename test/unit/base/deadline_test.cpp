// Points in time.
#include "tutti/deadline.hpp"

#include <thread>

#include "support/catch.hpp"

namespace tutti::test {

using namespace std::chrono_literals;

TEST_CASE("never does not expire") {
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

TEST_CASE("a timeout of nothing or less has expired") {
  CHECK(Deadline::after(0ns).expired());
  CHECK(Deadline::after(-1s).expired());
  CHECK(Deadline::after(-1s).remaining() == 0ns);
}

TEST_CASE("of two bounds the earlier holds") {
  const auto deadline = Deadline::after(10s);
  CHECK(deadline.within(1s).remaining() <= 1s);
  CHECK(deadline.within(1h).remaining() <= 10s);
  CHECK(deadline.within(std::chrono::nanoseconds::max()).remaining() <= 10s);
  CHECK(Deadline::never().within(1s).remaining() <= 1s);
  CHECK(Deadline::never().within(std::chrono::nanoseconds::max()).is_never());
}

}  // namespace tutti::test
