#include "engine/progress_engine.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "base/copy.hpp"
#include "base/quiet_thread.hpp"
#include "engine/reduce.hpp"

namespace tutti::engine {
namespace {

// How long a rank sleeps at most before it looks at its peers and its deadlines again.
constexpr std::chrono::milliseconds nap{100};
// The same where something else wants to be driven meanwhile.
constexpr std::chrono::microseconds nap_between_looks{100};
// A broken data link alone proves no death: the control plane gets this long to say who died.
constexpr std::chrono::seconds wait_for_agreement{2};

std::string text_of(const Task& task) {
  return control::describe(task.late.call, *task.late.group);
}

Error in_call(Error error, const Task& task) {
  return error.in(text_of(task), task.late.sequence);
}

}  // namespace

ProgressEngine::~ProgressEngine() {
  {
    const Lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  poke();
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
      progress_thread_ =
          start_quiet_thread("that moves calls while the program computes", [this] { help(); });
    }
  } catch (const Error& error) {
    // The others make this call and would wait for this rank.
    const auto& peers = plane_.peers();
    throw plane_.report_and_wait(
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
  if (driving_) poke();
}

/// Whoever drives is to look around, wherever it sleeps.
void ProgressEngine::poke() {
  plane_.poke();
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
    if (!driving_) {
      driving_ = true;
      drive(lock, limit, [&] { return is_finished() || limit.expired(); });
      driving_ = false;
    } else {
      if (progress_thread_drives_) poke();  // it makes way
      changed_.wait_for(lock, limit.remaining(), [&] { return is_finished() || !driving_; });
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
  const auto deadline = plane_.deadline(limit);
  bool reported = false;
  while (true) {
    const auto task = find(group);
    if (!task) return;
    if (wait(*task, reported ? Deadline::after(std::chrono::seconds(1)) : deadline)) continue;
    // The thread that drives is in a long step of its own (a copy, a reduction) and still uses the
    // call's memory; the step ends, and then the verdict ends the call.
    if (reported) continue;
    reported = true;
    const auto& peers = plane_.peers();
    static_cast<void>(plane_.report_and_wait(
        {.code = ErrorCode::aborted,
         .failed_ranks = {peers.rank()},
         .sentence = fmt::format("{} destroyed a communicator while its {} (call {}) was in flight",
                                 peers.describe(peers.rank()), text_of(*task), task->late.sequence),
         .origin = peers.rank()}));
  }
}

std::shared_ptr<Task> ProgressEngine::find(const control::Group& group) {
  const Lock lock(mutex_);
  for (const auto* task : in_flight_) {
    if (task->late.group->id == group.id) return task->self;
  }
  return nullptr;
}

/// With the mutex held and `driving_` set by the caller.
template <class Stop>
void ProgressEngine::drive(Lock& lock, Deadline limit, Stop stop) {
  do {
    active_.insert(active_.end(), incoming_.begin(), incoming_.end());
    incoming_.clear();
    lock.unlock();
    move_all(limit);
    lock.lock();
    if (publish() && waiters_ > 1) changed_.notify_all();
  } while (!stop() && has_tasks());
  changed_.notify_all();
}

bool ProgressEngine::publish() {
  const bool any = !over_.empty();
  for (auto* const task : over_) {
    const auto kept = std::move(task->self);
    std::erase(in_flight_, task);
    task->finished.store(true, std::memory_order_release);
  }
  over_.clear();
  return any;
}

void ProgressEngine::help() {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || (!driving_ && waiters_ == 0 && has_tasks()); });
    if (stop_) return;
    driving_ = true;
    progress_thread_drives_ = true;
    links_.allow_spinning(false);
    drive(lock, Deadline::after(std::chrono::hours(1)), [this] { return stop_ || waiters_ > 0; });
    links_.allow_spinning(true);
    progress_thread_drives_ = false;
    driving_ = false;
    changed_.notify_all();
  }
}

void ProgressEngine::move_all(Deadline limit) {
  current_ = nullptr;
  try {
    if (plane_.failed()) return fail_all();
    if (advance_all()) return;
    auto longest = std::min<std::chrono::nanoseconds>(nap, limit.remaining());
    for (const auto* task : active_) longest = std::min(longest, task->deadline.remaining());
    // Not by the helper: it may be of use to the thread that calls only.
    if (while_waiting_ && !progress_thread_drives_) {
      while_waiting_();
      longest = std::min<std::chrono::nanoseconds>(longest, nap_between_looks);
    }
    const bool moved = progress(longest);
    // What came may be all that was due; deadlines of others are looked at in any case.
    if (moved && advance_all() && active_.empty()) return;
    look_for_trouble(moved);
  } catch (...) {
    if (active_.empty()) return;
    fail_all_with(current_ != nullptr ? *current_ : *active_.front(), std::current_exception());
  }
}

/// True if a call is over.
bool ProgressEngine::advance_all() {
  for (auto* const task : active_) {
    current_ = task;
    if (advance(*task)) complete(*task);
  }
  current_ = nullptr;
  if (over_.empty()) return false;
  std::erase_if(active_, [this](Task* task) {
    return std::find(over_.begin(), over_.end(), task) != over_.end();
  });
  return true;
}

void ProgressEngine::activate(Task& task) {
  if (const auto& division = task.division; division && division->weighs) {
    weigh(division->buffer, division->buffer, division->count, division->type, division->ranks);
  }
  task.execution.emplace(task.schedule, task.memory,
                         Execution::Names{task.call, task.late.group->world}, links_);
}

void ProgressEngine::activate_messages(Task& task) {
  auto& exchange = task.exchange.emplace();
  if (const auto& in = task.messages->in) {
    checker_.add_message(in->from, in->call);
    exchange.receive(links_, *in);
  }
  if (const auto& out = task.messages->out) {
    checker_.add_message(out->to, out->call);
    exchange.send(links_, *out);
  }
  if (const auto& own = task.messages->own) {
    copy_bytes(own->to, own->from.data(), own->from.size());
  }
}

bool ProgressEngine::advance(Task& task) {
  if (task.shared != nullptr) {
    if (!task.shared->may_run()) return false;
    const auto progress = task.shared->advance();
    if (progress != SharedCall::Progress::blocked) {
      idle_since_.reset();
      shared_has_moved_ = true;
    }
    return progress == SharedCall::Progress::done &&
           !(task.shared->has_read_exported() && plane_.failed());
  }
  if (task.messages) {
    if (!task.exchange) activate_messages(task);
    return task.exchange->done();
  }
  if (!task.execution) activate(task);
  return task.execution->advance();
}

void ProgressEngine::complete(Task& task) {
  if (!task.messages && task.shared == nullptr) links_.finish_collective(task.call.key);
  if (task.messages) {
    if (const auto& out = task.messages->out) links_.finish_sent(out->call.key, out->to);
    if (const auto& in = task.messages->in) links_.finish_received(in->call.key, in->from);
  }
  if (const auto& division = task.division) {
    divide(division->buffer, division->count, division->type, division->ranks);
  }
  close(task);
}

void ProgressEngine::close(Task& task) {
  if (task.messages) {
    if (const auto& out = task.messages->out) checker_.remove_message(out->call);
    if (const auto& in = task.messages->in) checker_.remove_message(in->call);
  }
  task.history->end(task.ticket);
  over_.push_back(&task);
}

/// A verdict ends all calls alike.
void ProgressEngine::fail_all() {
  for (auto* const task : active_) {
    task->error = std::make_exception_ptr(in_call(plane_.agreed_error(), *task));
    close(*task);
  }
  active_.clear();
  // The memory of these calls goes: the links must not touch it again.
  links_.abandon();
}

void ProgressEngine::fail_all_with(Task& failed_rank, const std::exception_ptr& error) {
  // What this rank alone has met the others must hear of, or they wait for it.
  if (!plane_.failed()) tell(failed_rank, error);
  for (auto* const task : active_) {
    // One that was done in the same round keeps its result.
    if (std::find(over_.begin(), over_.end(), task) != over_.end()) continue;
    task->error = task == &failed_rank
                      ? error
                      : std::make_exception_ptr(in_call(plane_.agreed_error(), *task));
    close(*task);
  }
  active_.clear();
  links_.abandon();
}

/// Returns with a verdict.
void ProgressEngine::tell(const Task& failed_rank, const std::exception_ptr& error) {
  std::string reason = "unknown";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    reason = known.what();
  } catch (...) {
  }
  const auto& peers = plane_.peers();
  static_cast<void>(plane_.report_and_wait(
      {.code = ErrorCode::aborted,
       .failed_ranks = {peers.rank()},
       .sentence = fmt::format("{}: {} failed: {}", peers.describe(peers.rank()),
                               text_of(failed_rank), reason),
       .origin = peers.rank()}));
}

void ProgressEngine::look_for_trouble(bool moved) {
  for (auto* const task : active_) {
    current_ = task;
    if (task->deadline.expired()) {
      // What came at the last moment counts.
      if (advance(*task)) continue;
      const auto report = find_late(plane_, task->late, awaited(*task));
      if (plane_.failed()) throw in_call(plane_.agreed_error(), *task);
      fail(report, *task);
    }
    if (!moved) check_peers(*task);
  }
  current_ = nullptr;
}

void ProgressEngine::fail(const control::FailureReport& report, const Task& task) {
  throw in_call(plane_.report_and_wait(report), task);
}

void ProgressEngine::check_peers(Task& task) {
  if (task.shared != nullptr) return check_members(task);
  const auto seen_before = task.seen_departed;
  const auto all = awaited(task);
  for (const auto& awaited : all) {
    check_peer(task, awaited, seen_before.contains(awaited.peer));
  }
  note_awaited(task, all);
}

/// For the recorder: not in the first moments, which cost.
void ProgressEngine::note_awaited(Task& task, const std::vector<Awaited>& all) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_first = task.next_note == std::chrono::steady_clock::time_point{};
  if (!is_first && now < task.next_note) return;
  task.next_note = now + nap;
  if (is_first) return;
  std::vector<int> peers;
  for (const auto& [peer, receiving] : all) {
    if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  }
  task.history->note_awaited(task.ticket, std::move(peers));
}

void ProgressEngine::fail_departed(int peer, const Task& task) {
  const auto& peers = plane_.peers();
  fail({.code = ErrorCode::mismatch,
        .failed_ranks = {peer},
        .sentence = fmt::format("{} waits in {} for {}, which has left: all ranks must make the "
                                "same calls before they destroy the communicator",
                                peers.describe(peers.rank()), text_of(task), peers.describe(peer)),
        .origin = peers.rank()},
       task);
}

void ProgressEngine::check_peer(Task& task, const Awaited& awaited, bool departed_before) {
  const auto& peers = plane_.peers();
  const auto& [peer, receiving] = awaited;
  const auto state = links_.state(peer, receiving);
  const bool over = !state.failure.empty();
  if (plane_.has_departed(peer) && (over || !state.made)) {
    // Its last connection may have come after this look at the link and before the look for the
    // goodbye: what is there is taken first.
    task.seen_departed.insert(peer);
    if (!departed_before) return;
    fail_departed(peer, task);
  }
  if (!over) return;
  const auto now = plane_.clock()->now();
  if (!task.broken_since) task.broken_since = now;
  if (now - *task.broken_since < wait_for_agreement) return;
  fail({.code = ErrorCode::system,
        .failed_ranks = {peer},
        .sentence = fmt::format("{} can't {} {}: {}", peers.describe(peers.rank()),
                                receiving ? "receive from" : "send to", peers.describe(peer),
                                state.failure),
        .origin = peers.rank()},
       task);
}

}  // namespace tutti::engine
