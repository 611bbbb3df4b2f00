// Gather, direct: every rank sends its block to the root. Also for blocks of different lengths;
// only the root knows all of them.
//
//     root ◄── root+1        rounds        1
//       ▲◄──── root+2        bytes sent    the own block, the root 0
//       └◄──── …             scratch       none
//                            chosen        large blocks, few ranks; always for gather_v
//
// Between hosts, the root reads the blocks of its own host from shared memory if it has it. Blocks
// of different lengths are messages: the ranks of a host do not know how many chunks they need.
//
// Paper: none; the "flat tree" of every textbook.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

namespace {

/// `shares(rank)`: the root reads the block of `rank` from shared memory.
template <class Shares>
Schedule receive_at_root(const ScheduleArguments& arguments, const Shares& shares) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  const Blocks blocks(arguments);
  for (int distance = 1; distance < arguments.size; ++distance) {
    const int peer = (arguments.root + distance) % arguments.size;
    if (shares(peer)) continue;
    append_round(schedule, {1, 1, {recv_from(peer, Buffer::output, whole(blocks.at(peer)))}});
  }
  if (!arguments.in_place)
    append_round(schedule,
                 {1, 1, {copy_of(Buffer::output, blocks.at(arguments.root), Buffer::input, 0)}});
  return schedule;
}

Schedule send_to_root(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  append_round(schedule, {1, 1, {send_to(arguments.root, Buffer::input, whole(arguments.count))}});
  return schedule;
}

}  // namespace

Schedule gather_direct(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("direct", arguments);
  const HostGroups groups(arguments);
  if (!groups.shares_with(arguments.root) && arguments.rank != arguments.root)
    return send_to_root(arguments);
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  std::vector<StepPattern> steps;
  const auto chunk = published_chunk(arguments);
  if (arguments.rank != arguments.root) {
    steps = {publish_of(Buffer::input, chunk_of({0, arguments.count}, chunk)), release_chunk()};
  } else {
    schedule = receive_at_root(arguments, [&](int rank) { return groups.shares_with(rank); });
    if (!groups.shares()) return schedule;
    steps = {publish_nothing()};
    for (const int peer : groups.neighbours()) {
      const Region block = Blocks(arguments).at(peer);
      steps.push_back(read_of(peer, Buffer::output, chunk_of(block, chunk)));
      steps.back().remote_shift = {-block.begin};
    }
    steps.push_back(release_chunk());
  }
  append_round(schedule, {1, divide_up(arguments.count, chunk), std::move(steps)});
  return schedule;
}

Schedule gather_v_direct(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("direct", arguments);
  if (arguments.rank != arguments.root) return send_to_root(arguments);
  return receive_at_root(arguments, [](int /*rank*/) { return false; });
}

}  // namespace tutti::algorithm
