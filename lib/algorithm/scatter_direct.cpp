// Scatter, direct: the root sends everyone its block. Also for blocks of different lengths, which
// only the root knows all of.
//
//     root ──► root+1        rounds        1
//       ├────► root+2        bytes sent    root all blocks but its own, the others 0
//       └────► …             scratch       none
//                            chosen        large blocks, few ranks; always for scatter_v
//
// Paper: none; the "flat tree" of every textbook.
#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

Schedule scatter_direct(const Problem& given) {
  const Problem problem = in_place_at_root(given);
  if (problem.size == 1) return alone("direct", problem);
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (problem.rank != problem.root) {
    append_round(schedule, {1, 1, {recv_from(problem.root, Buffer::output, whole(problem.count))}});
    return schedule;
  }
  const Blocks blocks(problem);
  for (int distance = 1; distance < problem.size; ++distance) {
    const int peer = (problem.root + distance) % problem.size;
    append_round(schedule, {1, 1, {send_to(peer, own_buffer(problem), whole(blocks.at(peer)))}});
  }
  const Region own = blocks.at(problem.root);
  if (!problem.in_place)
    append_round(schedule,
                 {1, 1, {copy_of(Buffer::output, {0, own.length()}, Buffer::input, own.begin)}});
  return schedule;
}

}  // namespace tutti::algorithm
