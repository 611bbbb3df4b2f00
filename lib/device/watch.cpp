#include "device/watch.hpp"

#include <utility>

namespace tutti::device {
namespace {

constexpr std::chrono::milliseconds poll_time{1};

}  // namespace

Watch::Watch(Actions actions, Times times, std::unique_ptr<ReservedThread> thread)
    : actions_(std::move(actions)), times_(times), thread_(std::move(thread)) {
  thread_->run([this] { run(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.reset();
}

void Watch::wake() noexcept {
  const std::lock_guard lock(mutex_);
  awake_.store(true);
  changed_.notify_all();
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!awake_) {
      changed_.wait(lock, [this] { return stop_ || awake_; });
      continue;
    }
    if (changed_.wait_for(lock, times_.tick, [this] { return stop_; })) return;
    lock.unlock();
    const bool goes_on = look();
    lock.lock();
    if (!goes_on) return;
  }
}

/// False when NCCL's work has been ended: nothing is left to look after.
bool Watch::look() {
  const auto entries = entries_.load();
  const auto now = std::chrono::steady_clock::now();
  if (entries != seen_) {
    seen_ = entries;
    seen_since_ = now;
  }
  const std::chrono::nanoseconds timeout(timeout_.load(std::memory_order_relaxed));
  const bool late = is_inside(entries) && now - seen_since_ >= timeout;
  if (late && !actions_.failed()) actions_.late(timeout);
  if (late || actions_.failed()) {
    close();
    return false;
  }
  if (!is_inside(entries) && !busy_.load(std::memory_order_relaxed)) {
    awake_.store(false);
    // A call that came meanwhile did not see it.
    if (entries_.load() != entries) awake_.store(true);
  }
  return true;
}

void Watch::close() {
  closed_.store(true);
  // A call that is on its way through is not to be cut off; one that is blocked is.
  if (wait_for_return(times_.tick)) {
    actions_.abort();
    return;
  }
  actions_.abort();
  if (!wait_for_return(times_.return_limit)) actions_.stuck();
}

/// True when no call is inside; false at the limit or when this object is going.
bool Watch::wait_for_return(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(mutex_);
  while (is_inside(entries_.load())) {
    if (std::chrono::steady_clock::now() >= end) return false;
    changed_.wait_for(lock, poll_time);
  }
  return true;
}

}  // namespace tutti::device
