// Progress of shared-memory calls.
#include <algorithm>
#include <utility>

#include "engine/progress_engine.hpp"

namespace tutti::engine {

/// Advances the links, or waits for an event. Returns true if anything moved.
bool ProgressEngine::progress(std::chrono::nanoseconds max_wait) {
  const auto waits_there = [](const Task* task) { return task->work.waits_in_shared_memory(); };
  if (std::none_of(active_.begin(), active_.end(), waits_there)) return links_.progress(max_wait);
  const bool only_shared = std::all_of(active_.begin(), active_.end(), [](const Task* task) {
    return task->work.shared.has_value();
  });
  if (links_.progress(std::chrono::nanoseconds(0))) {
    shared_wait_.reset();
    return true;
  }
  if (std::exchange(shared_has_moved_, false)) return true;
  if (shared_wait_.may_poll(WaitPolicy::shared_calls(progress_thread_runs_))) return false;
  return sleep_in_segment(std::min<std::chrono::nanoseconds>(
      max_wait, only_shared ? WaitPolicy::max_shared_sleep : WaitPolicy::max_mixed_sleep));
}

bool ProgressEngine::sleep_in_segment(std::chrono::nanoseconds limit) {
  const transport::Sleep sleep(*segment_);
  const auto first = std::min<std::chrono::nanoseconds>(limit, transport::max_store_delay);
  for (const auto max_sleep : {first, limit - first}) {
    if (advance_all() || shared_has_moved_ || detector_.job_failed()) return true;
    sleep.until_notified(max_sleep);
  }
  return false;
}

/// Valid until the next call.
const std::vector<Awaited>& ProgressEngine::awaited(Task& task) {
  awaited_.clear();
  const auto& messages = task.work.messages;
  if (messages && messages->awaits_any()) {
    // As long as one is left that may send.
    const auto& world = task.pending.group->world;
    const int self = detector_.peers().rank();
    for (const int rank : world) {
      if (rank != self && !detector_.has_departed(rank)) awaited_.push_back({rank, true});
    }
    for (const int rank : world) {
      if (rank != self && awaited_.empty()) awaited_.push_back({rank, true});
    }
  } else if (messages) {
    task.progress->transfer.add_awaited(awaited_);
  } else if (auto& shared = task.work.shared) {
    const auto& group = *task.pending.group;
    for (int member = 0; shared->may_run() && member < group.size(); ++member) {
      if (shared->awaits(member)) awaited_.push_back({group.world_of(member), true, true});
    }
  } else {
    task.execution->add_awaited(awaited_);
  }
  return awaited_;
}

/// A slot of `rank` in shared memory names another call; none does if it is below 0.
void ProgressEngine::compare_calls_of(Task& task, int rank) {
  if (rank < 0 || task.progress->has_seen_mismatch) return;
  // The control plane compares the calls and reports; this call must not end before.
  task.progress->has_seen_mismatch = true;
  checker_.compare_with(task.pending.group->world_of(rank), task.pending.group->id);
}

}  // namespace tutti::engine
