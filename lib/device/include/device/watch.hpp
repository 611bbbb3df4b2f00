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

/// Looks after the calls into NCCL from a thread of its own, which sleeps while the device is idle.
/// Queuing a call can block inside NCCL (the first time that two ranks talk), where nobody looks at
/// deadlines or verdicts; and a program may wait for its stream by CUDA's own means. So past a
/// call's time, or at a verdict, this ends NCCL's work, and what is blocked returns.
///
/// A call costs two atomic operations here, and no look at a clock.
class Watch {
 public:
  struct Actions {
    std::function<bool()> failed;  ///< is there a verdict?
    /// A call has been inside for its whole time: there is to be a verdict.
    std::function<void(std::chrono::nanoseconds timeout)> late;
    std::function<void()> abort;  ///< ends NCCL's work, within a limit
    std::function<void()> stuck;  ///< the call does not return in spite of that
  };
  struct Times {
    std::chrono::milliseconds tick{100};
    std::chrono::milliseconds return_limit{2000};  ///< for a blocked call to return after abort()
  };

  /// What its thread is for.
  static constexpr const char* purpose = "to watch NCCL";

  Watch(Actions actions, std::unique_ptr<ReservedThread> thread)
      : Watch(std::move(actions), Times{}, std::move(thread)) {}
  Watch(Actions actions, Times times, std::unique_ptr<ReservedThread> thread);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  /// A call into NCCL, for as long as it lives. By one thread at a time.
  class Inside {
   public:
    Inside(Watch& watch, std::chrono::nanoseconds timeout) noexcept : watch_(watch) {
      watch_.timeout_.store(timeout.count(), std::memory_order_relaxed);
      watch_.busy_.store(true, std::memory_order_relaxed);
      // Sequentially consistent, as what the thread does before it rests or closes: either it sees
      // this call, or this call sees what it did.
      watch_.entries_.fetch_add(1);
      if (!watch_.awake_.load()) watch_.wake();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() {
      watch_.entries_.store(watch_.entries_.load(std::memory_order_relaxed) + 1,
                            std::memory_order_release);
    }
    /// False: NCCL is being ended; it must not be called.
    [[nodiscard]] bool open() const noexcept { return !watch_.closed_.load(); }

   private:
    Watch& watch_;
  };

  /// Nothing is queued any more: the thread may sleep until the next call.
  void rest() noexcept { busy_.store(false, std::memory_order_relaxed); }

 private:
  void wake() noexcept;
  void run();
  [[nodiscard]] bool look();
  void close();
  [[nodiscard]] bool wait_for_return(std::chrono::milliseconds limit);
  [[nodiscard]] static bool is_inside(std::uint64_t entries) { return entries % 2 == 1; }

  Actions actions_;
  Times times_;
  std::atomic<std::uint64_t> entries_{0};  ///< odd while a call is inside
  std::atomic<std::int64_t> timeout_{0};   ///< of the latest call, ns
  std::atomic<bool> busy_{false};          ///< something may be queued
  std::atomic<bool> awake_{false};
  std::atomic<bool> closed_{false};

  // The thread's.
  std::uint64_t seen_ = 0;
  std::chrono::steady_clock::time_point seen_since_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::unique_ptr<ReservedThread> thread_;
};

}  // namespace tutti::device
