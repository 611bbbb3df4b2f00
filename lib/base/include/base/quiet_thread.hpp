#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "tutti/error.hpp"

namespace tutti {

/// Error{system} for a thread that could not be started, with the limits that are reached, as far
/// as known; `purpose` is "for the control links".
[[nodiscard]] Error no_thread(const char* purpose, const std::system_error& error);

/// Starts a thread with all signals blocked, so that the program's own threads handle them. Throws
/// Error{system} if it cannot be started. All threads are started here.
template <class Body>
[[nodiscard]] std::thread start_quiet_thread(const char* purpose, Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw no_thread(purpose, error);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

/// A thread started before its work is known, so that a lack of threads is detected early. The
/// destructor waits for the work, if any.
class ReservedThread {
 public:
  /// Until run() it calls `meanwhile`, unless null, every 100 ms. Throws Error{system}.
  explicit ReservedThread(const char* purpose, std::function<void()> meanwhile = nullptr);
  ReservedThread(const ReservedThread&) = delete;
  ReservedThread& operator=(const ReservedThread&) = delete;
  ~ReservedThread();

  /// Call once.
  void run(std::function<void()> work);

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace tutti
