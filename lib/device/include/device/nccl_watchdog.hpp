#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/quiet_thread.hpp"

namespace tutti::device {

/// Ends calls that are blocked inside NCCL, from a thread of its own, which sleeps while the device
/// is idle. Queuing a call can block inside NCCL (the first time that two ranks connect), where no
/// deadline or failure is checked; and a program may wait for its stream by CUDA's own means. So
/// when a call has timed out or the job has failed, the watchdog aborts NCCL's work, and the
/// blocked calls return.
///
/// A call costs two atomic operations and does not read the clock.
class NcclWatchdog {
 public:
  struct Actions {
    std::function<bool()> failed;  ///< true once a failure is agreed
    /// A call has been active for its whole timeout: must report a failure.
    std::function<void(std::chrono::nanoseconds timeout)> on_timeout;
    std::function<void()> abort;     ///< aborts NCCL's work, within a limit
    std::function<void()> on_stuck;  ///< the call does not return after abort()
  };
  struct Times {
    std::chrono::milliseconds interval{20};        ///< between looks at a busy device
    std::chrono::milliseconds settle_limit{100};   ///< for an active call to return before abort()
    std::chrono::milliseconds return_limit{2000};  ///< for a blocked call to return after abort()
  };

  /// Purpose of the thread, for error messages.
  static constexpr const char* purpose = "to watch NCCL";

  NcclWatchdog(Actions actions, std::unique_ptr<ReservedThread> thread)
      : NcclWatchdog(std::move(actions), Times{}, std::move(thread)) {}
  NcclWatchdog(Actions actions, Times times, std::unique_ptr<ReservedThread> thread);
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;
  ~NcclWatchdog();

  /// Marks a call into NCCL as active for its lifetime. One thread at a time.
  class ActiveCall {
   public:
    ActiveCall(NcclWatchdog& watchdog, std::chrono::nanoseconds timeout) noexcept
        : watchdog_(watchdog) {
      watchdog_.timeout_.store(timeout.count(), std::memory_order_relaxed);
      watchdog_.busy_.store(true, std::memory_order_relaxed);
      // Sequentially consistent, like the watchdog's stores before it sleeps or closes: either it
      // sees this call, or this call sees its store.
      watchdog_.entries_.fetch_add(1);
      if (!watchdog_.awake_.load()) watchdog_.wake();
    }
    ActiveCall(const ActiveCall&) = delete;
    ActiveCall& operator=(const ActiveCall&) = delete;
    ~ActiveCall() {
      watchdog_.entries_.store(watchdog_.entries_.load(std::memory_order_relaxed) + 1,
                               std::memory_order_release);
    }
    /// False: NCCL is being aborted and must not be called.
    [[nodiscard]] bool may_call() const noexcept { return !watchdog_.closed_.load(); }

   private:
    NcclWatchdog& watchdog_;
  };

  /// Nothing is queued: the thread may sleep until the next call.
  void set_idle() noexcept { busy_.store(false, std::memory_order_relaxed); }

 private:
  void wake() noexcept;
  void run();
  [[nodiscard]] bool check();
  void close();
  [[nodiscard]] bool wait_for_return(std::chrono::milliseconds limit);
  [[nodiscard]] static bool is_active(std::uint64_t entries) { return entries % 2 == 1; }

  Actions actions_;
  Times times_;
  std::atomic<std::uint64_t> entries_{0};  ///< odd while a call is active
  std::atomic<std::int64_t> timeout_{0};   ///< of the latest call, ns
  std::atomic<bool> busy_{false};          ///< something may be queued
  std::atomic<bool> awake_{false};
  std::atomic<bool> closed_{false};

  // Used by the thread only.
  std::uint64_t seen_ = 0;
  std::chrono::steady_clock::time_point seen_since_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::unique_ptr<ReservedThread> thread_;
};

}  // namespace tutti::device
