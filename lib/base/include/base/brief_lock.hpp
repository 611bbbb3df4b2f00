#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tutti {

/// For a few nanoseconds of work that threads hardly ever do at once: locking is one atomic
/// exchange and unlocking a plain store, where a mutex takes an exchange for each. Whoever has to
/// wait yields its core at once, and soon sleeps in between, so that a holder of a lower priority
/// comes to run.
class BriefLock {
  // Else the lock would take a mutex of the standard library's.
  static_assert(std::atomic<bool>::is_always_lock_free);

 public:
  void lock() noexcept {
    int tries = 0;
    while (held_.exchange(true, std::memory_order_acquire)) wait(tries++);
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static void wait(int tries) noexcept {
    constexpr int max_yields = 100;
    if (tries < max_yields) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  std::atomic<bool> held_{false};
};

}  // namespace tutti
