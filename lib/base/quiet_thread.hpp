#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace tutti {

/// A thread that takes none of the process's signals: they go to the program's own threads.
template <class Body>
[[nodiscard]] std::thread start_quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace tutti
