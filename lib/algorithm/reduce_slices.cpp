// Reduce, slices, in rank order: rank r gets slice r of everyone's contribution as it is, combines
// all of them in the order of ranks, at once, and gives the result to the root.
//
//     chunk k of slice   0    1    2          rounds        2(p − 1) a pass, a chunk of each
//     rank 0 gives       ⊕    1    2                        slice in each pass
//     rank 1 gives       0    ⊕    2          bytes sent    n, the root (p − 1)/p·n
//     rank 2 gives       0    1    ⊕          scratch       p + 1 chunks, the root p
//     then each ⊕ goes to the root            chosen        large buffers, in rank order
//
// Paper: R. Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004, LNCS 3036:
// reduce-scatter, then gather. Both go directly from rank to rank here, so that nothing is added up
// on the way, and each element is rounded once.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "raw_exchange.hpp"

namespace tutti::algorithm {

Schedule reduce_slices(const Problem& given) {
  const Problem problem = in_place_at_root(given);
  if (problem.size == 1) return alone("slices", problem);
  Schedule schedule{.algorithm = "slices", .loops = {}, .scratch_elements = 0};
  const RawExchange exchange(problem, Blocks::slices(problem));
  const int size = problem.size;
  const int root = problem.root;
  const auto slice = [&](int rank) { return exchange.chunk_of_pass(exchange.blocks().at(rank)); };
  schedule.passes = exchange.passes();
  schedule.scratch_elements = exchange.scratch_elements();
  if (problem.rank != root) {
    const std::int64_t length = exchange.blocks().at(problem.rank).length();
    const Piece result = exchange.in_scratch(schedule.scratch_elements, length);
    schedule.scratch_elements += exchange.chunk();
    exchange.append(schedule, Buffer::scratch, result);
    append_round(schedule, {1, 1, {send_to(root, Buffer::scratch, result)}});
    return schedule;
  }
  exchange.append(schedule, Buffer::output, slice(root));
  for (int distance = 1; distance < size; ++distance) {
    const int peer = (root + distance) % size;
    append_round(schedule, {1, 1, {recv_from(peer, Buffer::output, slice(peer))}});
  }
  return schedule;
}

}  // namespace tutti::algorithm
