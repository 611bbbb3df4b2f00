#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/peers.hpp"

namespace tutti::device {

/// Who carries buffers in device memory.
enum class Path : std::uint8_t {
  host,    ///< nobody: some rank sees no device
  staged,  ///< the host path, by copies: every rank has a device, but NCCL can't serve
  nccl,
};

/// Which path all ranks take: a pure function of the infos, so that all come to the same.
struct Agreement {
  Path path = Path::host;
  /// Index among the devices that the rank sees; empty on the host path.
  std::vector<int> device_of_rank;
  std::string reason;  ///< "every rank has a device of its own"; without NCCL, why
};

/// The rule: a process that sees one device uses it; one that sees more uses the one whose index is
/// its local rank. Two ranks on one device, slices of peer info (MIG), and ranks that have no NCCL
/// lead to staging, a rank that sees no device to the host path, with the ranks, pids, host, device
/// and remedy in `reason`.
[[nodiscard]] Agreement agree(const rendezvous::Peers& peers);

}  // namespace tutti::device
