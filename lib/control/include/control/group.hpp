#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/call_signature.hpp"

namespace tutti::control {

/// The ranks of one communicator. Peers, links and failure reports use ranks of the whole job
/// ("world"); users and schedules use ranks within the group.
struct Group {
  std::uint32_t id = 0;    ///< id of the communicator; 0: the whole job
  int rank = 0;            ///< this process's rank within the group
  std::vector<int> world;  ///< each member's rank in the job

  [[nodiscard]] int size() const { return static_cast<int>(world.size()); }
  [[nodiscard]] int world_of(int member) const { return world[static_cast<std::size_t>(member)]; }
  [[nodiscard]] bool has(int world_rank) const {
    return std::find(world.begin(), world.end(), world_rank) != world.end();
  }

  /// The members' ranks in the job, for messages: "rank 3", "ranks 2 and 3", "ranks 0, 2 and 4 to
  /// 7".
  [[nodiscard]] std::string world_text() const;
  /// True if any member's rank in the group differs from that in the job.
  [[nodiscard]] bool renumbers() const;

  static Group whole_job(int rank, int size) {
    Group group{.rank = rank, .world = std::vector<int>(static_cast<std::size_t>(size))};
    std::iota(group.world.begin(), group.world.end(), 0);
    return group;
  }
};

/// describe() with ranks of the job, as in all messages about peers: "broadcast of 4 u8 from rank 3
/// of the job". Without "of the job" if the group does not renumber ranks.
[[nodiscard]] std::string describe(const CallSignature& call, const Group& group);

}  // namespace tutti::control
