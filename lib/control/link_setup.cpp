#include "control/link_setup.hpp"

#include <utility>

namespace tutti::control {

bool LinkSetup::wait_for(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return is_over(); });
}

LinkSetup::Progress LinkSetup::wait(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  while (!is_over() && !deadline.expired()) {
    changed_.wait_for(lock, deadline.poll_interval(), [this] { return is_over(); });
  }
  return progress_;
}

bool LinkSetup::is_complete() const {
  const std::lock_guard lock(mutex_);
  return progress_.missing.empty();
}

void LinkSetup::add_link(int neighbour) {
  {
    const std::lock_guard lock(mutex_);
    progress_.missing.erase(neighbour);
    // The waiting thread has nothing to do until the last one.
    if (!is_over()) return;
  }
  // After the lock: the woken thread would wait for it.
  changed_.notify_all();
}

void LinkSetup::fail(std::string reason) {
  const std::lock_guard lock(mutex_);
  progress_.failure = std::move(reason);
  changed_.notify_all();
}

void LinkSetup::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

}  // namespace tutti::control
