#pragma once

#include <string>
#include <vector>

#include "rendezvous/peers.hpp"

namespace tutti::device {

/// Which path all ranks take: a pure function of the cards, so that all come to the same.
struct Agreement {
  bool on_devices = false;
  std::vector<int>
      device_of_rank;  ///< index among the devices that the rank sees; empty on the host path
  std::string reason;  ///< "every rank has a device of its own"; on the host path, why
};

/// The rule: a process that sees one device uses it; one that sees more uses the one whose index is
/// its local rank. Two ranks on one device, slices of a card (MIG), and ranks that see no device or
/// have no NCCL lead to the host path, with the ranks, pids, host, device and remedy in `reason`.
[[nodiscard]] Agreement agree(const rendezvous::Peers& peers);

}  // namespace tutti::device
