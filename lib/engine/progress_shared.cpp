// What the progress_engine does for calls through shared memory.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/pause.hpp"
#include "engine/progress_engine.hpp"

namespace tutti::engine {
namespace {

// Calls through shared memory: how long whoever drives sleeps at most before it looks for a
// verdict; and where calls over links are on their way, too, before it looks after those.
constexpr std::chrono::milliseconds shared_nap{10};
constexpr std::chrono::microseconds mixed_nap{100};

}  // namespace

/// Moves what comes over the links, or waits until something may move; true if anything did.
bool ProgressEngine::progress(std::chrono::nanoseconds longest) {
  const auto is_shared = [](const Task* task) { return task->shared != nullptr; };
  const auto shared = std::count_if(active_.begin(), active_.end(), is_shared);
  if (shared == 0) return links_.progress(longest);
  const bool only_shared = shared == static_cast<std::ptrdiff_t>(active_.size());
  if (links_.progress(std::chrono::nanoseconds(0))) return true;
  if (std::exchange(shared_has_moved_, false)) return true;
  // Ranks that share memory mostly come soon, and a wake-up is expensive: but not where the program
  // computes and needs the core.
  const auto now = std::chrono::steady_clock::now();
  if (!idle_since_) idle_since_ = now;
  if (!progress_thread_drives_ && now - *idle_since_ < longest_yielding) {
    ::sched_yield();
    return false;
  }
  return sleep_in_segment(
      std::min<std::chrono::nanoseconds>(longest, only_shared ? shared_nap : mixed_nap));
}

bool ProgressEngine::sleep_in_segment(std::chrono::nanoseconds limit) {
  const transport::Sleep sleep(*segment_);
  const auto first = std::min<std::chrono::nanoseconds>(limit, transport::longest_unseen);
  for (const auto nap : {first, limit - first}) {
    if (advance_all() || shared_has_moved_ || plane_.failed()) return true;
    sleep.until_notified(nap);
  }
  return false;
}

std::vector<Awaited> ProgressEngine::awaited(const Task& task) const {
  if (task.messages) return task.exchange->awaited();
  if (task.shared == nullptr) return task.execution->awaited();
  std::vector<Awaited> result;
  if (!task.shared->may_run()) return result;
  for (const int member : task.shared->awaited()) {
    result.push_back({task.late.group->world_of(member), true});
  }
  return result;
}

/// The same for a call through shared memory.
void ProgressEngine::check_members(Task& task) {
  const int mismatched_member = task.shared->mismatched_member();
  if (mismatched_member >= 0 && !task.has_seen_mismatch) {
    // It compares the calls and reports; until then this call must not end.
    task.has_seen_mismatch = true;
    plane_.compare_calls_with(task.late.group->world_of(mismatched_member), task.late.group->id);
  }
  if (!idle_since_ || std::chrono::steady_clock::now() - *idle_since_ < longest_yielding) return;
  const auto all = awaited(task);
  for (const auto& [peer, receiving] : all) {
    if (!plane_.has_departed(peer)) continue;
    // What it wrote last is looked at once more.
    if (!task.seen_departed.insert(peer).second) fail_departed(peer, task);
  }
  note_awaited(task, all);
}

}  // namespace tutti::engine
