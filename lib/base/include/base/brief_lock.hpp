#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tutti {

/// A lock for critical sections of a few nanoseconds with little contention: one atomic exchange to
/// lock and a plain store to unlock, where a mutex takes an exchange for each. A waiter yields its
/// core, then sleeps, so that a holder of lower priority can run.
class BriefLock {
  // Otherwise std::atomic would take a mutex.
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
