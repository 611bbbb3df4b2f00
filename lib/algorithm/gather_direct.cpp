// Gather, direct: everyone sends its block to the root. Also for blocks of different lengths, which
// only the root knows all of.
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

Schedule gather_direct(const Problem& given) {
  const Problem problem = in_place_at_root(given);
  if (problem.size == 1) return alone("direct", problem);
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (problem.rank != problem.root) {
    append_round(schedule, {1, 1, {send_to(problem.root, Buffer::input, whole(problem.count))}});
    return schedule;
  }
  const Blocks blocks(problem);
  for (int distance = 1; distance < problem.size; ++distance) {
    const int peer = (problem.root + distance) % problem.size;
    append_round(schedule, {1, 1, {recv_from(peer, Buffer::output, whole(blocks.at(peer)))}});
  }
  if (!problem.in_place)
    append_round(schedule,
                 {1, 1, {copy_of(Buffer::output, blocks.at(problem.root), Buffer::input, 0)}});
  return schedule;
}

}  // namespace tutti::algorithm
