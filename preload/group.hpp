#pragma once

#include <memory>
#include <vector>

#include "nccl_communicator.hpp"

namespace tutti::preload {

/// A thread's calls between ncclGroupStart and ncclGroupEnd.
///
/// All ranks of a communicator group the same calls on it, since NCCL chooses algorithms by what is
/// in a group. But a call that is alone in one rank's group may be without a group on another rank,
/// or in a group with calls on other communicators. So the first call on each communicator is held
/// until another one on it comes, or the group ends: then it is served as if there were no group.
class Group {
 public:
  /// Of the calling thread.
  [[nodiscard]] static Group& current();

  [[nodiscard]] bool is_open() const { return depth_ > 0; }
  void start() { ++depth_; }
  /// Inside the group. `communicator` is null if this library does not know it.
  [[nodiscard]] NcclResult add(const std::shared_ptr<NcclCommunicator>& communicator,
                               const NcclCall& call);
  [[nodiscard]] NcclResult end();
  /// As end(), by ncclGroupSimulateEnd: NCCL estimates the time of calls that never run.
  [[nodiscard]] NcclResult simulate_end(void* estimate);

 private:
  struct Entry {
    std::shared_ptr<NcclCommunicator> communicator;
    NcclCall call;
    bool is_held = false;
    bool comes_first = false;  ///< before all calls that are handed on
  };
  [[nodiscard]] Entry* find(const NcclCommunicator& communicator);
  [[nodiscard]] NcclResult hand_on_entry(Entry& entry, Obstacle obstacle);
  [[nodiscard]] NcclResult serve_held(bool those_first);

  int depth_ = 0;
  bool has_handed_on_ = false;
  std::vector<Entry> entries_;  ///< one for each known communicator
};

}  // namespace tutti::preload
