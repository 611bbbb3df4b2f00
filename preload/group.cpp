#include "group.hpp"

#include <algorithm>
#include <utility>

#include "real_nccl.hpp"

namespace tutti::preload {

Group& Group::current() {
  thread_local Group group;
  return group;
}

Group::Entry* Group::find(const NcclCommunicator& communicator) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.communicator.get() == &communicator;
  });
  return found == entries_.end() ? nullptr : &*found;
}

NcclResult Group::hand_on_entry(Entry& entry, Obstacle obstacle) {
  entry.is_held = false;
  has_handed_on_ = true;
  entry.communicator->before_handed_on(entry.call, obstacle);
  return hand_on(entry.call);
}

NcclResult Group::add(const std::shared_ptr<NcclCommunicator>& communicator, const NcclCall& call) {
  if (!communicator) {
    has_handed_on_ = true;
    return hand_on(call);
  }
  if (communicator->failure() != nullptr) return nccl_remote_error;
  const auto obstacle = communicator->obstacle(call);
  auto* entry = find(*communicator);
  if (entry == nullptr) {
    entries_.push_back({.communicator = communicator,
                        .call = call,
                        .is_held = !obstacle,
                        .comes_first = !has_handed_on_});
    return obstacle ? hand_on_entry(entries_.back(), *obstacle) : device::nccl_success;
  }
  if (entry->is_held) {
    const auto result = hand_on_entry(*entry, Obstacle::group);
    if (result != device::nccl_success && result != device::nccl_in_progress) return result;
  }
  entry->call = call;
  return hand_on_entry(*entry, obstacle.value_or(Obstacle::group));
}

NcclResult Group::serve_held(bool those_first) {
  for (auto& entry : entries_) {
    if (!entry.is_held || entry.comes_first != those_first) continue;
    entry.is_held = false;
    const auto result = entry.communicator->serve(entry.call);
    if (result != device::nccl_success) return result;
  }
  return device::nccl_success;
}

NcclResult Group::end() {
  // NCCL has an error for an end without a start.
  if (depth_ > 0) --depth_;
  if (depth_ > 0) return hand_on(real_nccl().group_end);
  const auto served_first = serve_held(true);
  const auto result = hand_on(real_nccl().group_end);
  const auto served = serve_held(false);
  for (const auto& entry : std::exchange(entries_, {})) {
    entry.communicator->after_handed_on(entry.call.stream, result);
  }
  has_handed_on_ = false;
  if (result != device::nccl_success) return result;
  return served_first != device::nccl_success ? served_first : served;
}

NcclResult Group::simulate_end(void* estimate) {
  auto result = device::nccl_success;
  for (auto& entry : entries_) {
    if (entry.is_held && result == device::nccl_success) {
      result = hand_on_entry(entry, Obstacle::group);
    }
  }
  if (depth_ > 0) --depth_;
  const auto simulated = hand_on(real_nccl().group_simulate_end, estimate);
  if (depth_ == 0) {
    for (const auto& entry : std::exchange(entries_, {})) {
      entry.communicator->after_handed_on(entry.call.stream, simulated);
    }
    has_handed_on_ = false;
  }
  return simulated != device::nccl_success ? simulated : result;
}

}  // namespace tutti::preload
