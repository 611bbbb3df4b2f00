// Gather, direct: every rank sends its block to the root. Also for blocks of different lengths;
// only the root knows all of them.
//
//     root ◄── root+1        rounds        1
//       ▲◄──── root+2        bytes sent    the own block, the root 0
//       └◄──── …             scratch       none
//                            chosen        large blocks, few ranks; always for gather_v
//
// Paper: none; the "flat tree" of every textbook.
#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

Schedule gather_direct(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("direct", arguments);
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (arguments.rank != arguments.root) {
    append_round(schedule,
                 {1, 1, {send_to(arguments.root, Buffer::input, whole(arguments.count))}});
    return schedule;
  }
  const Blocks blocks(arguments);
  for (int distance = 1; distance < arguments.size; ++distance) {
    const int peer = (arguments.root + distance) % arguments.size;
    append_round(schedule, {1, 1, {recv_from(peer, Buffer::output, whole(blocks.at(peer)))}});
  }
  if (!arguments.in_place)
    append_round(schedule,
                 {1, 1, {copy_of(Buffer::output, blocks.at(arguments.root), Buffer::input, 0)}});
  return schedule;
}

}  // namespace tutti::algorithm
