#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/peers.hpp"

namespace tutti::device {

/// How buffers in device memory are moved.
enum class DeviceMode : std::uint8_t {
  host,    ///< not at all: some rank has no device
  staged,  ///< copied through host memory: every rank has a device, but NCCL can't serve all
  nccl,
};

/// The mode of all ranks: a pure function of the peer infos, so that all ranks agree.
struct Agreement {
  DeviceMode mode = DeviceMode::host;
  /// Index among the devices that the rank sees; empty without devices on all ranks.
  std::vector<int> device_of_rank;
  std::string reason;  ///< "every rank has a device of its own", or why NCCL is not used
};

/// A process that sees one device uses it; one that sees several uses the one that the program
/// chose, else the one whose index is its local rank. Ranks that share a device, use a MIG slice or
/// have no NCCL lead to staging, a rank without a device to the host path; `reason` names the
/// ranks, pids, host, device and remedy.
[[nodiscard]] Agreement agree(const rendezvous::Peers& peers);

}  // namespace tutti::device
