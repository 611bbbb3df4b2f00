// Fan-out, direct: the root itself sends to every other rank.
//
//     root ──► root+1        rounds        1
//       ├────► root+2        bytes sent    root (p − 1)·n, the others 0
//       └────► …             chosen        always for fan_out; for broadcast to a single peer
//
// Paper: none; the "flat tree" of every textbook. Starting beside the root, not at rank 0, keeps
// several fan-outs with different roots from meeting at one receiver.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

Schedule fan_out_direct(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  if (arguments.rank != arguments.root) {
    append_round(schedule,
                 {1, 1, {recv_from(arguments.root, Buffer::output, whole(arguments.count))}});
    return schedule;
  }
  for (int distance = 1; distance < arguments.size; ++distance) {
    const int peer = (arguments.root + distance) % arguments.size;
    append_round(schedule, {1, 1, {send_to(peer, Buffer::output, whole(arguments.count))}});
  }
  return schedule;
}

}  // namespace tutti::algorithm
