#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/call_signature.hpp"

namespace tutti::control {

/// The ranks of one communicator. Peers, links and verdicts count ranks of the whole job ("world");
/// what a user passes and schedules name counts ranks within the group.
struct Group {
  std::uint32_t id = 0;    ///< of the communicator; 0 is the whole job's
  int rank = 0;            ///< this process's, within the group
  std::vector<int> world;  ///< rank in the job of each member

  [[nodiscard]] int size() const { return static_cast<int>(world.size()); }
  [[nodiscard]] int world_of(int member) const { return world[static_cast<std::size_t>(member)]; }
  [[nodiscard]] bool has(int world_rank) const {
    return std::find(world.begin(), world.end(), world_rank) != world.end();
  }

  /// The members' ranks in the job, for people: "rank 3", "ranks 2 and 3", "ranks 0, 2 and 4 to 7".
  [[nodiscard]] std::string text_of_world() const;
  /// False where each member's rank is the same in the group and in the job.
  [[nodiscard]] bool renumbers() const;

  static Group whole_job(int rank, int size) {
    Group group{.rank = rank, .world = std::vector<int>(static_cast<std::size_t>(size))};
    std::iota(group.world.begin(), group.world.end(), 0);
    return group;
  }
};

/// describe() of a call of the group, with ranks of the job, as all that speaks of peers has them:
/// "broadcast of 4 u8 from rank 3 of the job". Without "of the job" where the group's numbers are
/// the same.
[[nodiscard]] std::string describe(const CallSignature& call, const Group& group);

}  // namespace tutti::control
