// The event loop over descriptors and timers.
#include "base/reactor.hpp"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::test {

using namespace std::chrono_literals;

TEST_CASE("timers run in the order of their time, equal ones in the order of creation") {
  Reactor reactor;
  std::string order;
  reactor.after(20ms, [&] { order += 'c'; });
  reactor.after(10ms, [&] { order += 'b'; });
  reactor.after(0ms, [&] { order += 'a'; });
  reactor.after(30ms, [&] {
    order += 'd';
    reactor.stop();
  });
  reactor.run();
  CHECK(order == "abcd");
}

TEST_CASE("a timer does not run before its time") {
  Reactor reactor;
  const auto start = Reactor::Clock::now();
  auto ran_at = start;
  reactor.after(20ms, [&] {
    ran_at = Reactor::Clock::now();
    reactor.stop();
  });
  reactor.run();
  CHECK(ran_at - start >= 20ms);
}

TEST_CASE("timers do not run early when the loop is woken") {
  Reactor reactor;
  int ran = 0;
  reactor.after(1h, [&] { ++ran; });
  reactor.post([] {});
  CHECK(reactor.run_once(10ms));
  CHECK(ran == 0);
}

TEST_CASE("a timer may set another, and a cancelled one never runs") {
  Reactor reactor;
  int ran = 0;
  const auto cancelled = reactor.after(1ms, [&] { ran += 100; });
  reactor.cancel(cancelled);
  reactor.cancel(cancelled);  // cancelling twice is harmless
  Reactor::TimerId later = 0;
  reactor.after(1ms, [&] {
    ++ran;
    reactor.cancel(later);
    reactor.after(1ms, [&] {
      ++ran;
      reactor.stop();
    });
  });
  later = reactor.after(1ms, [&] { ran += 100; });  // cancelled by the one before it
  reactor.run();
  CHECK(ran == 2);
}

TEST_CASE("a timer may cancel itself") {
  Reactor reactor;
  int ran = 0;
  Reactor::TimerId self = 0;
  self = reactor.after(0ms, [&] {
    reactor.cancel(self);
    ++ran;
  });
  reactor.run_once(10ms);
  reactor.run_once(0ms);
  CHECK(ran == 1);
}

TEST_CASE("one iteration waits no longer than its limit") {
  Reactor reactor;
  const auto start = Reactor::Clock::now();
  CHECK(reactor.run_once(20ms));
  const auto elapsed = Reactor::Clock::now() - start;
  CHECK(elapsed >= 20ms);
  CHECK(elapsed < 500ms);
}

TEST_CASE("a handler runs while its descriptor is ready, until it is removed") {
  Reactor reactor;
  Wakeup wakeup;
  int ran = 0;
  std::uint32_t seen = 0;
  reactor.add(wakeup.fd(), EPOLLIN, [&](std::uint32_t events) {
    ++ran;
    seen = events;
  });
  reactor.run_once(0ms);
  CHECK(ran == 0);
  wakeup.signal();
  reactor.run_once(10ms);
  reactor.run_once(10ms);
  CHECK(ran == 2);  // still ready: it was not cleared
  CHECK(seen == EPOLLIN);
  wakeup.clear();
  reactor.run_once(0ms);
  CHECK(ran == 2);
  wakeup.signal();
  reactor.modify(wakeup.fd(), 0);
  reactor.run_once(0ms);
  CHECK(ran == 2);
  reactor.modify(wakeup.fd(), EPOLLIN);
  reactor.run_once(0ms);
  CHECK(ran == 3);
  reactor.remove(wakeup.fd());
  reactor.run_once(0ms);
  CHECK(ran == 3);
}

TEST_CASE("a handler may remove itself and still use its captures") {
  Reactor reactor;
  Wakeup wakeup;
  wakeup.signal();
  std::string result;
  reactor.add(
      wakeup.fd(), EPOLLIN,
      [&, held = std::string("a text too long for the string's own memory")](std::uint32_t) {
        reactor.remove(wakeup.fd());
        result = held;
      });
  reactor.run_once(10ms);
  reactor.run_once(0ms);
  CHECK(result == "a text too long for the string's own memory");
}

TEST_CASE("of two ready descriptors the first handled may remove the other") {
  Reactor reactor;
  Wakeup one;
  Wakeup two;
  one.signal();
  two.signal();
  int ran = 0;
  const auto remove_both = [&](std::uint32_t) {
    ++ran;
    reactor.remove(one.fd());
    reactor.remove(two.fd());
  };
  reactor.add(one.fd(), EPOLLIN, remove_both);
  reactor.add(two.fd(), EPOLLIN, remove_both);
  reactor.run_once(10ms);
  CHECK(ran == 1);
}

TEST_CASE("an event for a closed descriptor does not reach another with the same number") {
  Reactor reactor;
  const Wakeup quiet;
  const Wakeup one;
  const Wakeup two;
  one.signal();
  two.signal();
  int ran = 0;
  // Both events arrive in one iteration. The first handled closes the other's descriptor and
  // registers a silent one under its number.
  const auto replace = [&](int other) {
    return [&, other](std::uint32_t) {
      reactor.remove(one.fd());
      reactor.remove(two.fd());
      ::dup2(quiet.fd(), other);
      reactor.add(other, EPOLLIN, [&](std::uint32_t) { ++ran; });
    };
  };
  reactor.add(one.fd(), EPOLLIN, replace(two.fd()));
  reactor.add(two.fd(), EPOLLIN, replace(one.fd()));
  reactor.run_once(10ms);
  CHECK(ran == 0);
  quiet.signal();
  reactor.run_once(10ms);
  CHECK(ran == 1);
}

TEST_CASE("modify() changes the events of a registration, and of none is an error") {
  Reactor reactor;
  const Wakeup wakeup;
  wakeup.signal();
  int ran = 0;
  reactor.add(wakeup.fd(), 0, [&](std::uint32_t) { ++ran; });
  reactor.run_once(10ms);
  CHECK(ran == 0);
  reactor.modify(wakeup.fd(), EPOLLIN);
  reactor.run_once(10ms);
  CHECK(ran == 1);
  reactor.remove(wakeup.fd());
  CHECK_THROWS_AS(reactor.modify(wakeup.fd(), EPOLLIN), Error);
}

TEST_CASE("a handler may add another") {
  Reactor reactor;
  Wakeup one;
  Wakeup two;
  one.signal();
  two.signal();
  int ran = 0;
  reactor.add(one.fd(), EPOLLIN, [&](std::uint32_t) {
    reactor.remove(one.fd());
    reactor.add(two.fd(), EPOLLIN, [&](std::uint32_t) {
      reactor.remove(two.fd());
      ++ran;
    });
  });
  reactor.run_once(10ms);
  reactor.run_once(10ms);
  CHECK(ran == 1);
}

TEST_CASE("a descriptor that epoll rejects is an error") {
  Reactor reactor;
  CHECK_THROWS_AS(reactor.add(-1, EPOLLIN, [](std::uint32_t) {}), Error);
  CHECK_THROWS_AS(reactor.modify(12345, EPOLLIN), Error);
}

TEST_CASE("actions posted by another thread run in the loop's thread, in order") {
  Reactor reactor;
  std::vector<int> order;
  std::thread::id ran_in;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      reactor.post([&, i] {
        order.push_back(i);
        ran_in = std::this_thread::get_id();
      });
    }
    reactor.stop();
  });
  reactor.run();
  other.join();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  CHECK(ran_in == std::this_thread::get_id());
}

TEST_CASE("a posted action wakes a loop that sleeps") {
  Reactor reactor;
  const auto start = Reactor::Clock::now();
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    reactor.stop();
  });
  reactor.run();  // would sleep for an hour
  other.join();
  CHECK(Reactor::Clock::now() - start < 5s);
}

TEST_CASE("an action may post another, which runs in a later iteration") {
  Reactor reactor;
  int ran = 0;
  reactor.post([&] {
    ++ran;
    reactor.post([&] { ++ran; });
  });
  reactor.run_once(0ms);
  CHECK(ran == 1);
  reactor.run_once(10ms);
  CHECK(ran == 2);
}

TEST_CASE("a stopped loop runs no timers and run_once() returns false") {
  Reactor reactor;
  int ran = 0;
  reactor.stop();
  CHECK(!reactor.run_once(0ms));
  reactor.after(0ms, [&] { ++ran; });
  CHECK(!reactor.run_once(0ms));
  CHECK(ran == 0);
}

TEST_CASE("an idle loop sleeps") {
  Reactor reactor;
  rusage before{};
  ::getrusage(RUSAGE_THREAD, &before);
  reactor.run_once(100ms);
  rusage after{};
  ::getrusage(RUSAGE_THREAD, &after);
  const auto spent = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1'000'000 +
                     (after.ru_utime.tv_usec - before.ru_utime.tv_usec);
  CHECK(spent < 20'000);
}

}  // namespace tutti::test
