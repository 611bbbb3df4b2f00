// Fan-out, direct: the root sends to everyone itself.
//
//     root ──► root+1        rounds        1
//       ├────► root+2        bytes sent    root (p − 1)·n, the others 0
//       └────► …             chosen        always for fan_out; for broadcast to a single peer
//
// Paper: none; the "flat tree" of every textbook. Starting beside the root, not at rank 0, keeps
// several fan-outs with different roots from all exchanged at one receiver.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

Schedule fan_out_direct(const Problem& problem) {
  Schedule schedule{.algorithm = "direct", .loops = {}, .scratch_elements = 0};
  if (problem.size == 1 || problem.count == 0) return schedule;
  if (problem.rank != problem.root) {
    append_round(schedule, {1, 1, {recv_from(problem.root, Buffer::output, whole(problem.count))}});
    return schedule;
  }
  for (int distance = 1; distance < problem.size; ++distance) {
    const int peer = (problem.root + distance) % problem.size;
    append_round(schedule, {1, 1, {send_to(peer, Buffer::output, whole(problem.count))}});
  }
  return schedule;
}

}  // namespace tutti::algorithm
