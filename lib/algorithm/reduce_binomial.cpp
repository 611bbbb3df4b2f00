// Reduce, binomial tree: every rank adds what its children have added up, the nearest first, and
// gives the sum to its parent.
//
//     0 ◄ 1  2 ◄ 3  4 ◄ 5  6 ◄ 7   rounds        ceil(log2 p)
//     0 ◄───── 2   4 ◄───── 6      bytes sent    n, the root 0
//     0 ◄─────────────── 4         scratch       n where there are children, the root none
//                                  chosen        small buffers
//
// Paper: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication
// Operations in MPICH, International Journal of High Performance Computing Applications 19(1),
// 2005. The tree stands on positions of the order by host, as the broadcast's.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "binomial.hpp"

namespace tutti::algorithm {

Schedule reduce_binomial(const Problem& given) {
  const Problem problem = in_place_at_root(given);
  if (problem.size == 1) return alone("binomial", problem);
  Schedule schedule{.algorithm = "binomial", .loops = {}, .scratch_elements = 0};
  const BinomialTree tree(problem);
  const Piece chunk = chunk_of(problem);
  const std::int64_t chunks = chunk_count(problem);
  const Buffer sum = tree.is_root() ? Buffer::output : Buffer::scratch;
  Buffer mine = own_buffer(problem);
  for (int distance = 1; distance < tree.reach(); distance *= 2) {
    if (!tree.has_child(distance)) continue;
    append_round(schedule, {1, chunks, {recv_reduce_from(tree.child(distance), sum, mine, chunk)}});
    mine = sum;
  }
  if (mine == Buffer::scratch) schedule.scratch_elements = problem.count;
  if (!tree.is_root()) append_round(schedule, {1, chunks, {send_to(tree.parent(), mine, chunk)}});
  return schedule;
}

}  // namespace tutti::algorithm
