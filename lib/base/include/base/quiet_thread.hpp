#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "tutti/error.hpp"

namespace tutti {

/// Error{system}: no thread can be started; `purpose` is "for the control links". Says which limits
/// are reached, as far as the kernel tells.
[[nodiscard]] Error no_thread(const char* purpose, const std::system_error& error);

/// A thread that takes none of the process's signals: they go to the program's own threads. Throws
/// Error{system} where no thread can be started. The only place that starts one.
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

/// A thread that is there before its work is known, so that a lack of threads shows early. Ends
/// with its work, for which the destructor waits; without work, at once.
class ReservedThread {
 public:
  /// Until its work is known it calls `meanwhile`, unless that is null, every 100 ms. Throws
  /// Error{system}.
  explicit ReservedThread(const char* purpose, std::function<void()> meanwhile = nullptr);
  ReservedThread(const ReservedThread&) = delete;
  ReservedThread& operator=(const ReservedThread&) = delete;
  ~ReservedThread();

  /// Once.
  void run(std::function<void()> work);

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace tutti
