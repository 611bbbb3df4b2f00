// The wait for control links in set-up.
#include "control/link_setup.hpp"

#include <thread>

#include "support/catch.hpp"

namespace tutti::control::test {

using namespace std::chrono_literals;

TEST_CASE("set-up is complete once every neighbour has a link") {
  LinkSetup setup({1, 3});
  CHECK_FALSE(setup.is_complete());
  CHECK_FALSE(setup.wait_for(0ms));
  setup.add_link(3);
  CHECK(setup.wait(Deadline::after(1ms)).missing == std::set{1});
  setup.add_link(1);
  CHECK(setup.is_complete());
  CHECK(setup.wait_for(0ms));
  CHECK(setup.wait(Deadline::never()).missing.empty());
}

TEST_CASE("the last link wakes the waiting thread") {
  LinkSetup setup({1, 2, 3});
  std::thread control([&] {
    for (const int neighbour : {3, 1, 2}) {
      std::this_thread::sleep_for(2ms);
      setup.add_link(neighbour);
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  CHECK(setup.wait_for(20s));
  // A wait that is not woken ends at its limit.
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  CHECK(setup.is_complete());
  control.join();
}

TEST_CASE("a rank without neighbours has all its links") {
  LinkSetup setup({});
  CHECK(setup.is_complete());
  CHECK(setup.wait(Deadline::never()).failure.empty());
}

TEST_CASE("a failed link and a failed job end the wait") {
  LinkSetup failed({1});
  failed.fail("can't reach rank 1");
  const auto progress = failed.wait(Deadline::never());
  CHECK(progress.failure == "can't reach rank 1");
  CHECK(progress.missing == std::set{1});
  CHECK_FALSE(failed.is_complete());

  LinkSetup cancelled({1});
  cancelled.cancel();
  CHECK(cancelled.wait_for(1h));
  CHECK(cancelled.wait(Deadline::never()).missing == std::set{1});
  CHECK_FALSE(cancelled.is_complete());
}

}  // namespace tutti::control::test
