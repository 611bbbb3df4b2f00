#include "engine/progress_engine.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "base/copy.hpp"
#include "base/error_builder.hpp"
#include "base/quiet_thread.hpp"
#include "engine/reduce.hpp"

namespace tutti::engine {
namespace {

// A broken data link alone does not prove that a rank died: the control plane gets this long to
// agree on the failed ranks.
constexpr std::chrono::seconds agreement_limit{2};

std::string describe_call(const Task& task) {
  return control::describe(task.pending.begun.call, *task.pending.group);
}

Error with_call(Error error, const Task& task) {
  return ErrorBuilder(std::move(error))
      .in(describe_call(task), task.pending.begun.sequence)
      .error();
}

}  // namespace

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
                                 peers.describe(peers.rank()), describe_call(*task),
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

void ProgressEngine::advance_and_wait(Deadline limit) {
  current_ = nullptr;
  try {
    if (detector_.job_failed()) return fail_all();
    if (advance_all()) return;
    auto max_wait = std::min<std::chrono::nanoseconds>(WaitPolicy::max_sleep, limit.remaining());
    for (const auto* task : active_) max_wait = std::min(max_wait, task->deadline.remaining());
    // Not on the progress thread: the callback may need the caller's thread.
    if (while_waiting_ && !progress_thread_runs_) {
      while_waiting_();
      max_wait = std::min<std::chrono::nanoseconds>(max_wait, WaitPolicy::callback_interval);
    }
    const bool moved = progress(max_wait);
    // The data may complete all calls; otherwise deadlines are checked in any case.
    if (moved && advance_all() && active_.empty()) return;
    check_tasks(moved);
  } catch (...) {
    if (active_.empty()) return;
    fail_all_with(current_ != nullptr ? *current_ : *active_.front(), std::current_exception());
  }
}

/// Returns true if a call has finished.
bool ProgressEngine::advance_all() {
  for (auto* const task : active_) {
    current_ = task;
    if (advance(*task)) complete(*task);
  }
  current_ = nullptr;
  if (finished_.empty()) return false;
  std::erase_if(active_, [this](Task* task) {
    return std::find(finished_.begin(), finished_.end(), task) != finished_.end();
  });
  return true;
}

void ProgressEngine::activate(Task& task) {
  task.progress.emplace();
  if (task.work.messages) {
    start_messages(task);
  } else if (!task.work.shared) {
    start_schedule(task);
  }
}

void ProgressEngine::start_schedule(Task& task) {
  if (const auto& division = task.work.division; division && division->weighs) {
    weigh(division->buffer, division->buffer, division->count, division->type, division->ranks);
  }
  const auto& schedule = *task.work.schedule;
  if (task.execution) {
    task.execution->restart(schedule, task.work.memory);
  } else {
    task.execution = std::make_unique<Execution>(
        schedule, task.work.memory, Execution::Names{task.context, task.pending.group->world},
        links_);
  }
}

void ProgressEngine::start_messages(Task& task) {
  const auto& messages = *task.work.messages;
  auto& transfer = task.progress->transfer;
  if (const auto& in = messages.in) {
    checker_.add_message(in->from, in->call);
    transfer.receive(links_, *in);
  }
  if (const auto& out = messages.out) {
    checker_.add_message(out->to, out->call);
    transfer.send(links_, *out);
  }
  if (const auto& own = messages.own) {
    copy_bytes(own->to, own->from.data(), own->from.size());
  }
}

bool ProgressEngine::advance(Task& task) {
  if (!task.progress) activate(task);
  if (auto& shared = task.work.shared) {
    if (!shared->may_run()) return false;
    const auto progress = shared->advance();
    if (progress != SharedCall::Progress::blocked) {
      shared_wait_.reset();
      shared_has_moved_ = true;
    }
    return progress == SharedCall::Progress::done &&
           !(shared->has_read_exported() && detector_.job_failed());
  }
  return task.work.messages ? task.progress->transfer.done() : task.execution->advance();
}

void ProgressEngine::complete(Task& task) {
  if (const auto& messages = task.work.messages) {
    if (const auto& out = messages->out) links_.finish_sent(out->call.key, out->to);
    if (const auto& in = messages->in) links_.finish_received(in->call.key, in->from);
  } else if (!task.work.shared) {
    links_.finish_collective(task.context.key);
  }
  if (const auto& division = task.work.division) {
    divide(division->buffer, division->count, division->type, division->ranks);
  }
  retire(task);
}

void ProgressEngine::retire(Task& task) {
  if (const auto& messages = task.work.messages) {
    if (const auto& out = messages->out) checker_.remove_message(out->call);
    if (const auto& in = messages->in) checker_.remove_message(in->call);
  }
  task.history->end(task.pending.begun.ticket);
  finished_.push_back(&task);
}

/// An agreed failure ends all calls.
void ProgressEngine::fail_all() {
  for (auto* const task : active_) {
    task->error = std::make_exception_ptr(with_call(detector_.agreed_error(), *task));
    retire(*task);
  }
  active_.clear();
  // The memory of these calls is released: the links must not touch it again.
  links_.abandon();
}

void ProgressEngine::fail_all_with(Task& failed_task, const std::exception_ptr& error) {
  // The other ranks must learn of a local failure, or they would wait for this rank.
  if (!detector_.job_failed()) report_failure(failed_task, error);
  for (auto* const task : active_) {
    // A call that finished in the same iteration keeps its result.
    if (std::find(finished_.begin(), finished_.end(), task) != finished_.end()) continue;
    task->error = task == &failed_task
                      ? error
                      : std::make_exception_ptr(with_call(detector_.agreed_error(), *task));
    retire(*task);
  }
  active_.clear();
  links_.abandon();
}

/// Returns once the failure is agreed.
void ProgressEngine::report_failure(const Task& failed_task, const std::exception_ptr& error) {
  std::string reason = "unknown";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    reason = known.what();
  } catch (...) {
  }
  const auto& peers = detector_.peers();
  static_cast<void>(detector_.report_and_wait(
      {.code = ErrorCode::aborted,
       .failed_ranks = {peers.rank()},
       .sentence = fmt::format("{}: {} failed: {}", peers.describe(peers.rank()),
                               describe_call(failed_task), reason),
       .origin = peers.rank()}));
}

void ProgressEngine::check_tasks(bool moved) {
  for (auto* const task : active_) {
    current_ = task;
    if (task->deadline.expired()) {
      // Data that arrived at the last moment counts.
      if (advance(*task)) continue;
      const auto report = make_timeout_report(detector_, statuses_, task->pending, awaited(*task));
      if (detector_.job_failed()) throw with_call(detector_.agreed_error(), *task);
      fail(report, *task);
    }
    if (!moved) check_peers(*task);
  }
  current_ = nullptr;
}

void ProgressEngine::fail(const control::FailureReport& report, const Task& task) {
  throw with_call(detector_.report_and_wait(report), task);
}

void ProgressEngine::check_peers(Task& task) {
  if (task.work.shared) return check_members(task);
  const auto seen_before = task.progress->seen_departed;
  for (const auto& one : awaited(task)) check_peer(task, one, seen_before.contains(one.peer));
  note_awaited(task);
}

/// Records the peers of the latest awaited() in the call history. Skips the first 100 ms: most
/// calls are done by then.
void ProgressEngine::note_awaited(Task& task) {
  const auto now = std::chrono::steady_clock::now();
  auto& next_record = task.progress->next_record;
  const bool is_first = next_record == std::chrono::steady_clock::time_point{};
  if (!is_first && now < next_record) return;
  next_record = now + WaitPolicy::max_sleep;
  if (is_first) return;
  auto& peers = awaited_peers_;
  peers.clear();
  for (const auto& [peer, receiving] : awaited_) {
    if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  }
  task.history->note_awaited(task.pending.begun.ticket, peers);
}

void ProgressEngine::fail_departed(int peer, const Task& task) {
  const auto& peers = detector_.peers();
  fail({.code = ErrorCode::mismatch,
        .failed_ranks = {peer},
        .sentence =
            fmt::format("{} waits in {} for {}, which has left the job: all ranks must make the "
                        "same calls before they destroy the communicator",
                        peers.describe(peers.rank()), describe_call(task), peers.describe(peer)),
        .origin = peers.rank()},
       task);
}

void ProgressEngine::check_peer(Task& task, const Awaited& awaited, bool departed_before) {
  const auto& peers = detector_.peers();
  const auto& [peer, receiving] = awaited;
  const auto state = links_.state(peer, receiving);
  const bool over = !state.failure.empty();
  if (detector_.has_departed(peer) && (over || !state.connected)) {
    // The peer's last connection may have been accepted between links_.state() and has_departed().
    // Its data is processed first; the next check decides.
    task.progress->seen_departed.insert(peer);
    if (!departed_before) return;
    fail_departed(peer, task);
  }
  if (!over) return;
  const auto now = detector_.clock()->now();
  auto& broken_since = task.progress->broken_since;
  if (!broken_since) broken_since = now;
  if (now - *broken_since < agreement_limit) return;
  fail({.code = ErrorCode::system,
        .failed_ranks = {peer},
        .sentence = fmt::format("{} can't {} {}: {}", peers.describe(peers.rank()),
                                receiving ? "receive from" : "send to", peers.describe(peer),
                                state.failure),
        .origin = peers.rank()},
       task);
}

}  // namespace tutti::engine
