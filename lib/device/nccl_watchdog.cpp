#include "device/nccl_watchdog.hpp"

#include <utility>

namespace tutti::device {
namespace {

constexpr std::chrono::milliseconds poll_time{1};

}  // namespace

NcclWatchdog::NcclWatchdog(Actions actions, Times times, std::unique_ptr<ReservedThread> thread)
    : actions_(std::move(actions)), times_(times), thread_(std::move(thread)) {
  thread_->run([this] { run(); });
}

NcclWatchdog::~NcclWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.reset();
}

void NcclWatchdog::wake() noexcept {
  const std::lock_guard lock(mutex_);
  awake_.store(true);
  changed_.notify_all();
}

void NcclWatchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!awake_) {
      changed_.wait(lock, [this] { return stop_ || awake_; });
      continue;
    }
    if (changed_.wait_for(lock, times_.interval, [this] { return stop_; })) return;
    lock.unlock();
    const bool continues = check();
    lock.lock();
    if (!continues) return;
  }
}

/// Returns false once NCCL's work has been aborted: nothing is left to watchdog.
bool NcclWatchdog::check() {
  const auto entries = entries_.load();
  const auto now = std::chrono::steady_clock::now();
  if (entries != seen_) {
    seen_ = entries;
    seen_since_ = now;
  }
  const std::chrono::nanoseconds timeout(timeout_.load(std::memory_order_relaxed));
  const bool timed_out = is_active(entries) && now - seen_since_ >= timeout;
  if (timed_out && !actions_.failed()) actions_.on_timeout(timeout);
  if (timed_out || actions_.failed()) {
    close();
    return false;
  }
  if (!is_active(entries) && !busy_.load(std::memory_order_relaxed)) {
    awake_.store(false);
    // A call that started meanwhile saw awake_ set.
    if (entries_.load() != entries) awake_.store(true);
  }
  return true;
}

void NcclWatchdog::close() {
  closed_.store(true);
  // Let a call that is about to return do so; a blocked one must be aborted.
  if (wait_for_return(times_.settle_limit)) {
    actions_.abort();
    return;
  }
  actions_.abort();
  if (!wait_for_return(times_.return_limit)) actions_.on_stuck();
}

/// Returns true when no call is active; false at the limit.
bool NcclWatchdog::wait_for_return(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(mutex_);
  while (is_active(entries_.load())) {
    if (std::chrono::steady_clock::now() >= end) return false;
    changed_.wait_for(lock, poll_time);
  }
  return true;
}

}  // namespace tutti::device
