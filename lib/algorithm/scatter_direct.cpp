// Scatter, direct: the root sends every rank its block. Also for blocks of different lengths; only
// the root knows all of them.
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

Schedule scatter_direct(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("direct", arguments);
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (arguments.rank != arguments.root) {
    append_round(schedule,
                 {1, 1, {recv_from(arguments.root, Buffer::output, whole(arguments.count))}});
    return schedule;
  }
  const Blocks blocks(arguments);
  for (int distance = 1; distance < arguments.size; ++distance) {
    const int peer = (arguments.root + distance) % arguments.size;
    append_round(schedule, {1, 1, {send_to(peer, own_buffer(arguments), whole(blocks.at(peer)))}});
  }
  const Region own = blocks.at(arguments.root);
  if (!arguments.in_place)
    append_round(schedule,
                 {1, 1, {copy_of(Buffer::output, {0, own.length()}, Buffer::input, own.begin)}});
  return schedule;
}

}  // namespace tutti::algorithm
