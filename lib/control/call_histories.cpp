#include "control/call_histories.hpp"

#include <algorithm>

namespace tutti::control {

std::shared_ptr<CallHistory> CallHistories::open(Group group) {
  const auto id = group.id;
  auto history = std::make_shared<CallHistory>(std::move(group), exact_);
  const std::lock_guard lock(mutex_);
  histories_[id] = history;
  return history;
}

void CallHistories::close(std::uint32_t communicator) {
  const std::lock_guard lock(mutex_);
  histories_.erase(communicator);
}

std::shared_ptr<CallHistory> CallHistories::find(std::uint32_t communicator) const {
  const std::lock_guard lock(mutex_);
  const auto found = histories_.find(communicator);
  return found == histories_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<CallHistory>> CallHistories::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CallHistory>> result;
  for (const auto& [id, history] : histories_) result.push_back(history);
  return result;
}

Activity CallHistories::activity_seen_from(std::uint32_t communicator) const {
  const auto own = find(communicator);
  auto activity = own ? own->activity() : Activity{};
  if (activity.in_call) return activity;
  for (const auto& other : all()) {
    const auto theirs = other->activity();
    if (!theirs.in_call && theirs.since <= activity.since) continue;
    // Activity in another communicator, with the sequence of this one.
    const auto sequence = activity.sequence;
    activity = theirs;
    activity.sequence = sequence;
    activity.elsewhere = other != own;
    if (theirs.in_call) break;
  }
  return activity;
}

bool CallHistories::have_completed_call() const {
  const auto histories = all();
  return std::any_of(histories.begin(), histories.end(), [](const auto& history) {
    const auto activity = history->activity();
    return activity.sequence > (activity.in_call ? 1U : 0U);
  });
}

}  // namespace tutti::control
