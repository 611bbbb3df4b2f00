// Reduce, binomial tree: every rank adds the sums of its children, the nearest first, and sends the
// result to its parent.
//
//     0 ◄ 1  2 ◄ 3  4 ◄ 5  6 ◄ 7   rounds        ceil(log2 p)
//     0 ◄───── 2   4 ◄───── 6      bytes sent    n, the root 0
//     0 ◄─────────────── 4         scratch       n where there are children, the root none
//                                  chosen        small buffers
//
// Paper: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication
// Operations in MPICH, International Journal of High Performance Computing Applications 19(1),
// 2005. The tree uses positions of the order by host, as the broadcast's.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "binomial.hpp"

namespace tutti::algorithm {

Schedule reduce_binomial(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("binomial", arguments);
  Schedule schedule{.algorithm = "binomial", .loops = {}, .scratch_elements = 0};
  const BinomialTree tree(arguments);
  const Piece chunk = chunk_of(arguments);
  const std::int64_t chunks = chunk_count(arguments);
  const Buffer sum = tree.is_root() ? Buffer::output : Buffer::scratch;
  Buffer mine = own_buffer(arguments);
  for (int distance = 1; distance < tree.reach(); distance *= 2) {
    if (!tree.has_child(distance)) continue;
    append_round(schedule, {1, chunks, {recv_reduce_from(tree.child(distance), sum, mine, chunk)}});
    mine = sum;
  }
  if (mine == Buffer::scratch) schedule.scratch_elements = arguments.count;
  if (!tree.is_root()) append_round(schedule, {1, chunks, {send_to(tree.parent(), mine, chunk)}});
  return schedule;
}

}  // namespace tutti::algorithm
