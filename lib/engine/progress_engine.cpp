#include "engine/progress_engine.hpp"

#include <fmt/format.h>

#include "base/quiet_thread.hpp"

namespace tutti::engine {

ProgressEngine::~ProgressEngine() {
  {
    const Lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  wake();
  if (progress_thread_.joinable()) progress_thread_.join();
}

void ProgressEngine::run(Task& task) {
  Lock lock(mutex_);
  add(task);
  while (!wait(lock, task, Deadline::never())) {
  }
  lock.unlock();
  if (task.error) std::rethrow_exception(task.error);
}

void ProgressEngine::make_progress_thread() {
  try {
    const Lock lock(mutex_);
    if (!progress_thread_.joinable()) {
      progress_thread_ = start_quiet_thread("that advances non-blocking calls",
                                            [this] { progress_thread_loop(); });
    }
  } catch (const Error& error) {
    // The other ranks make this call, too, and would wait for this rank.
    const auto& peers = detector_.peers();
    throw detector_.report_and_wait(
        {.code = error.code(),
         .failed_ranks = {peers.rank()},
         .sentence = fmt::format("{}: {}", peers.describe(peers.rank()), error.sentence()),
         .origin = peers.rank()});
  }
}

void ProgressEngine::start(const std::shared_ptr<Task>& task) {
  const Lock lock(mutex_);
  task->self = task;
  add(*task);
  changed_.notify_all();
}

void ProgressEngine::add(Task& task) {
  in_flight_.push_back(&task);
  incoming_.push_back(&task);
  if (running_) wake();
}

/// Wakes the running thread wherever it sleeps.
void ProgressEngine::wake() {
  wakeup_.signal();
  if (segment_) segment_->wake_self();
}

bool ProgressEngine::wait(Task& task, Deadline limit) {
  if (task.finished.load(std::memory_order_acquire)) return true;
  Lock lock(mutex_);
  return wait(lock, task, limit);
}

bool ProgressEngine::wait(Lock& lock, Task& task, Deadline limit) {
  const auto is_finished = [&] { return task.finished.load(std::memory_order_relaxed); };
  ++waiters_;
  do {
    if (!running_) {
      running_ = true;
      run_engine(lock, limit, [&] { return is_finished() || limit.expired(); });
      running_ = false;
    } else {
      if (progress_thread_runs_) wake();  // it yields to the caller
      changed_.wait_for(lock, limit.remaining(), [&] { return is_finished() || !running_; });
    }
  } while (!is_finished() && !limit.expired());
  --waiters_;
  if (has_tasks()) changed_.notify_all();
  return is_finished();
}

void ProgressEngine::wait_for_all(const control::Group& group) {
  while (const auto task = find(group)) wait(*task, Deadline::never());
}

void ProgressEngine::leave(const control::Group& group, std::chrono::nanoseconds limit) {
  const auto deadline = detector_.deadline(limit);
  bool reported = false;
  while (true) {
    const auto task = find(group);
    if (!task) return;
    if (wait(*task, reported ? Deadline::after(std::chrono::seconds(1)) : deadline)) continue;
    // The running thread is in a long copy or reduction that still uses the call's memory. When
    // that returns, the agreed failure ends the call.
    if (reported) continue;
    reported = true;
    const auto& peers = detector_.peers();
    static_cast<void>(detector_.report_and_wait(
        {.code = ErrorCode::aborted,
         .failed_ranks = {peers.rank()},
         .sentence = fmt::format("{} destroyed a communicator while its {} (call {}) was in flight",
                                 peers.describe(peers.rank()), describe(task->pending),
                                 task->pending.begun.sequence),
         .origin = peers.rank()}));
  }
}

std::shared_ptr<Task> ProgressEngine::find(const control::Group& group) {
  const Lock lock(mutex_);
  for (const auto* task : in_flight_) {
    if (task->pending.group->id == group.id) return task->self;
  }
  return nullptr;
}

/// Requires the mutex, and `running_` set by the caller.
template <class Stop>
void ProgressEngine::run_engine(Lock& lock, Deadline limit, Stop stop) {
  do {
    active_.insert(active_.end(), incoming_.begin(), incoming_.end());
    incoming_.clear();
    lock.unlock();
    advance_and_wait(limit);
    lock.lock();
    if (publish() && waiters_ > 1) changed_.notify_all();
  } while (!stop() && has_tasks());
  changed_.notify_all();
}

bool ProgressEngine::publish() {
  const bool any = !finished_.empty();
  for (auto* const task : finished_) {
    const auto kept = std::move(task->self);
    std::erase(in_flight_, task);
    task->finished.store(true, std::memory_order_release);
  }
  finished_.clear();
  return any;
}

void ProgressEngine::progress_thread_loop() {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || (!running_ && waiters_ == 0 && has_tasks()); });
    if (stop_) return;
    running_ = true;
    progress_thread_runs_ = true;
    links_.allow_spinning(false);
    run_engine(lock, Deadline::after(std::chrono::hours(1)),
               [this] { return stop_ || waiters_ > 0; });
    links_.allow_spinning(true);
    progress_thread_runs_ = false;
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace tutti::engine
