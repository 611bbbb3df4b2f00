#include "base/fork_guard.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>

#include "base/system_error.hpp"

namespace tutti::fork_guard {
namespace {

struct List {
  std::mutex mutex;
  std::set<int> descriptors;
  Generation generation = 0;
};

// Per process (docs/decisions/0021-close-on-fork.md). Never destroyed: a fork may happen during
// exit.
List& list() {
  static auto* const one = new List;
  return *one;
}

void before_fork() {
  list().mutex.lock();
}

void in_parent() {
  list().mutex.unlock();
}

void in_child() {
  auto& own = list();
  for (const int fd : own.descriptors) ::close(fd);
  own.descriptors.clear();
  ++own.generation;
  own.mutex.unlock();
}

void install_handlers() {
  static const int error = ::pthread_atfork(before_fork, in_parent, in_child);
  if (error != 0) throw system_error("can't install handlers of fork()", error);
}

}  // namespace

Generation add(int fd) {
  install_handlers();
  auto& own = list();
  const std::lock_guard lock(own.mutex);
  own.descriptors.insert(fd);
  return own.generation;
}

bool remove(int fd, Generation generation) noexcept {
  auto& own = list();
  const std::lock_guard lock(own.mutex);
  if (generation != own.generation) return false;
  own.descriptors.erase(fd);
  return true;
}

}  // namespace tutti::fork_guard
