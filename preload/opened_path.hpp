#pragma once

#include <memory>
#include <string>

#include "base/environment.hpp"
#include "device/context.hpp"
#include "direct/path.hpp"
#include "host_segment.hpp"
#include "peer_processes.hpp"
#include "rendezvous/peers.hpp"

namespace tutti::preload {

/// A communicator's direct path and what it needs; without one, the reason.
struct OpenedPath {
  std::shared_ptr<const device::Context> context;
  std::unique_ptr<rendezvous::Peers> peers;
  std::unique_ptr<HostSegment> segment;
  std::unique_ptr<PeerProcesses> processes;
  std::unique_ptr<device::direct::DirectPath> path;
  std::string reason;   ///< "its ranks are on several hosts …"; empty if there is a path
  std::string warning;  ///< on rank 0, if the tuning file is unusable
};

/// One rank of an NCCL communicator whose set-up has returned.
struct NcclRank {
  int rank = 0;
  int size = 1;
  int device = 0;  ///< CUDA's ordinal
};

/// Collective over the ranks that have registered in `segment`. All get a path, or none does.
/// Throws nothing.
[[nodiscard]] OpenedPath open_path(
    const NcclRank& who, std::unique_ptr<HostSegment> segment, const Environment& environment,
    const std::shared_ptr<const device::Library<device::CudaCalls>>& cuda,
    const std::shared_ptr<device::direct::ClosingStaging>& closing);

}  // namespace tutti::preload
