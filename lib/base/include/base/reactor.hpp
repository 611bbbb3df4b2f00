#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/descriptor.hpp"

namespace tutti {

/// An event loop over descriptors and timers. All but post() and stop() are for the loop's thread
/// only.
class Reactor {
 public:
  using Clock = std::chrono::steady_clock;
  using OnReady = std::function<void(std::uint32_t epoll_events)>;
  using TimerId = std::uint64_t;

  Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Calls `on_ready` whenever one of `events` (EPOLLIN, EPOLLOUT) holds, until remove().
  void add(int fd, std::uint32_t events, OnReady on_ready);
  void modify(int fd, std::uint32_t events);
  /// Allowed within any callback, including the descriptor's own.
  void remove(int fd);

  TimerId after(Clock::duration delay, std::function<void()> action);
  void cancel(TimerId id);

  /// Runs `action` soon in the loop's thread. Safe from any thread.
  void post(std::function<void()> action);
  /// Makes run() return after the current callback. Safe from any thread.
  void stop();

  void run();
  /// One iteration: waits at most `limit` for events and handles them. False once stopped.
  bool run_once(Clock::duration limit);

 private:
  struct Registration {
    std::uint32_t number = 0;
    // shared_ptr, so that a callback that removes itself lives until it returns.
    std::shared_ptr<OnReady> on_ready;
  };

  void control(int operation, int fd, std::uint32_t number, std::uint32_t events);
  [[nodiscard]] Clock::duration wait_time(Clock::duration limit) const;
  void run_due_timers();
  void run_posted();

  Descriptor epoll_;
  Wakeup wakeup_;
  std::map<int, Registration> registrations_;  ///< by descriptor
  std::uint32_t next_registration_ = 0;
  std::map<std::pair<Clock::time_point, TimerId>, std::function<void()>> timers_;
  TimerId next_timer_ = 1;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  bool stopped_ = false;
};

}  // namespace tutti
