#pragma once

#include <functional>
#include <memory>

#include "control/group.hpp"
#include "control/plane.hpp"
#include "device/context.hpp"
#include "device/library.hpp"
#include "device/setup_talk.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::device {

/// Broadcasts what rank 0 passes to all ranks of a group.
using Broadcast = std::function<Bytes(const Bytes&)>;

/// Where an id is made, and for whom.
struct IdMaker {
  std::shared_ptr<const Context> context;
  std::shared_ptr<const Library<NcclCalls>> nccl;
  control::Plane& plane;
  const control::Group& group;
};

/// Collective over the group: rank 0 makes NCCL's unique id and broadcasts it, or why it has none.
/// Before the broadcast the ranks meet over the host path, under the talk's deadline: it takes no
/// time, and whoever then waits in NCCL waits for ranks that are in it too. Throws AgreedFailure
/// where rank 0 can't make the id, or not in time.
[[nodiscard]] NcclUniqueId share_unique_id(const IdMaker& maker, SetupTalk& talk,
                                           const Broadcast& broadcast);

}  // namespace tutti::device
