// All-gather, hierarchical: blocks travel round rings of the ranks with the same index on their
// hosts, and each rank reads the blocks of its neighbours as they arrive.
//
//     2 hosts with 2 ranks; blocks of                rounds        h − 1 between h hosts; inside h,
//     0 and 2, 1 and 3 are exchanged                               through shared memory
//                                                    bytes sent    n·(h − 1) by each rank
//        0 ◄─ ring ─► 2    1 ◄─ ring ─► 3            chosen        hosts with equally many ranks,
//        0 ◄─ inside ─► 1  2 ◄─ inside ─► 3                        several
//
// Also for blocks of different lengths. Hosts with different numbers of ranks use the ring of all
// ranks. Without shared memory each rank sends its blocks to its neighbours.
//
// Paper: as all_gather_ring.cpp.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

Schedule all_gather_hierarchical(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("hierarchical", arguments);
  Schedule schedule{.algorithm = "hierarchical", .loops = {}};
  const Blocks blocks(arguments);
  if (blocks.total() == 0) return schedule;
  const HostGroups groups(arguments);
  if (groups.min_ranks() != groups.max_ranks()) {
    schedule = all_gather_ring(arguments);
    schedule.algorithm = "hierarchical";
    return schedule;
  }
  const int hosts = groups.hosts();
  const auto chunk = published_chunk(arguments);
  const auto chunks = divide_up(blocks.longest(), chunk);
  const auto block_of = [&](int host, int index) {
    return blocks.at(groups.rank_at((host % hosts + hosts) % hosts, index));
  };
  if (!arguments.in_place) {
    const auto own = blocks.at(arguments.rank);
    schedule.loops.push_back({1, 1, {copy_of(Buffer::output, own, Buffer::input, 0)}});
  }
  // In turn t each rank has the block of the host t before its own.
  for (int turn = 0; turn < hosts; ++turn) {
    std::vector<StepPattern> steps;
    const auto mine = chunk_of(block_of(groups.host() - turn, groups.index()), chunk);
    if (turn + 1 < hosts) {
      steps.push_back(send_to(groups.next(), Buffer::output, mine));
      const auto next = block_of(groups.host() - turn - 1, groups.index());
      steps.push_back(recv_from(groups.previous(), Buffer::output, chunk_of(next, chunk)));
    }
    const bool shares = groups.shares();
    if (shares) steps.push_back(publish_of(Buffer::output, mine));
    for (int offset = 1; offset < groups.here(); ++offset) {
      const int index = (groups.index() + offset) % groups.here();
      const int peer = groups.rank_here(index);
      const auto theirs = chunk_of(block_of(groups.host() - turn, index), chunk);
      if (shares) {
        steps.push_back(read_of(peer, Buffer::output, theirs));
      } else {
        const int receiver =
            groups.rank_here((groups.index() - offset + groups.here()) % groups.here());
        steps.push_back(send_to(receiver, Buffer::output, mine));
        steps.push_back(recv_from(peer, Buffer::output, theirs));
      }
    }
    if (shares) steps.push_back(release_chunk());
    schedule.loops.push_back({1, chunks, std::move(steps)});
  }
  return schedule;
}

}  // namespace tutti::algorithm
