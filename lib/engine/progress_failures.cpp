// How calls fail: deadlines, peers that are gone, and failures of this rank.
#include <fmt/format.h>

#include <algorithm>

#include "base/error_builder.hpp"
#include "engine/progress_engine.hpp"

namespace tutti::engine {
namespace {

// A broken data link alone does not prove that a rank died: the control plane gets this long to
// agree on the failed ranks.
constexpr std::chrono::seconds agreement_limit{2};

Error with_call(Error error, const Task& task) {
  return ErrorBuilder(std::move(error))
      .in(describe(task.pending), task.pending.begun.sequence)
      .error();
}

}  // namespace

/// The memory of all calls is about to be released: neither the links nor other ranks may take it
/// for theirs.
void ProgressEngine::abandon_memory() {
  links_.abandon();
  if (segment_) segment_->single_copy().revoke();
}

/// An agreed failure ends all calls.
void ProgressEngine::fail_all() {
  for (auto* const task : active_) {
    task->error = std::make_exception_ptr(with_call(detector_.agreed_error(), *task));
    retire(*task);
  }
  active_.clear();
  abandon_memory();
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
  abandon_memory();
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
                               describe(failed_task.pending), reason),
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
  if (task.work.waits_in_shared_memory()) {
    const auto& work = task.work;
    compare_calls_of(
        task, work.shared ? work.shared->mismatched_member() : work.chunks->mismatched_rank());
    if (!shared_wait_.has_lasted(WaitPolicy::max_yield_time)) return;
  }
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
  for (const auto& one : awaited_) {
    if (std::find(peers.begin(), peers.end(), one.peer) == peers.end()) peers.push_back(one.peer);
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
                        peers.describe(peers.rank()), describe(task.pending), peers.describe(peer)),
        .origin = peers.rank()},
       task);
}

void ProgressEngine::check_peer(Task& task, const Awaited& awaited, bool departed_before) {
  const auto& peers = detector_.peers();
  const auto& [peer, receiving, in_shared_memory] = awaited;
  // A broken link to a peer says nothing of what it publishes. If the peer dies, the control plane
  // reports it.
  const auto state = in_shared_memory ? transport::LinkState{} : links_.state(peer, receiving);
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
