#pragma once

#include <vector>

#include "base/descriptor.hpp"
#include "rendezvous/peers.hpp"

namespace tutti::preload {

/// The processes of a communicator's other ranks, on this host.
class PeerProcesses {
 public:
  /// Throws Error{system} if a process has ended or the kernel can't watch it.
  explicit PeerProcesses(const rendezvous::Peers& peers);

  /// Looks for processes that have ended, whatever the reason. Returns true if there are some.
  bool look();
  /// The ranks whose processes had ended at the latest look.
  [[nodiscard]] const std::vector<int>& ended() const { return ended_; }

 private:
  std::vector<Descriptor> processes_;  ///< pidfds by rank; none for the own and for ended ones
  std::vector<int> ended_;
};

}  // namespace tutti::preload
