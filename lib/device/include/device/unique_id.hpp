#pragma once

#include <functional>
#include <memory>

#include "control/failure_detector.hpp"
#include "control/group.hpp"
#include "device/context.hpp"
#include "device/library.hpp"
#include "device/setup_exchange.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::device {

/// Broadcasts rank 0's bytes to all ranks of a group.
using Broadcast = std::function<Bytes(const Bytes&)>;

/// Where an id is created, and for which group.
struct IdMaker {
  std::shared_ptr<const Context> context;
  std::shared_ptr<const Library<NcclCalls>> nccl;
  const control::FailureDetector& detector;
  const control::Group& group;
};

/// Collective over the group: rank 0 creates NCCL's unique id and broadcasts it, or the reason of
/// its failure. Before the broadcast the ranks synchronize over the host path under `setup`'s
/// deadline, so that ranks that wait in NCCL wait for ranks that are in NCCL, too. Throws
/// AgreedFailure if rank 0 can't create the id in time.
[[nodiscard]] NcclUniqueId share_unique_id(const IdMaker& maker, SetupExchange& setup,
                                           const Broadcast& broadcast);

}  // namespace tutti::device
