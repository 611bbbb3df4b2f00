// Gather, binomial tree: every rank passes the blocks of its subtree on together.
//
//     0 ◄ 1  2 ◄ 3  4 ◄ 5  6 ◄ 7   rounds        ceil(log2 p)
//     0 ◄──── 2-3  4 ◄──── 6-7     bytes sent    the blocks of the subtree, the root 0
//     0 ◄────────────── 4-7        scratch       the blocks of the subtree but the own
//                                  chosen        small blocks
//
// Paper: S. L. Johnsson and C.-T. Ho, Optimum Broadcasting and Personalized Communication in
// Hypercubes, IEEE Transactions on Computers 38(9), 1989. The tree stands on positions of the order
// by host. The root takes the blocks out of each message one by one where ranks that follow each
// other are not neighbours.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "binomial.hpp"

namespace tutti::algorithm {

Schedule gather_binomial(const Problem& given) {
  const Problem problem = in_place_at_root(given);
  if (problem.size == 1) return alone("binomial", problem);
  Schedule schedule{.algorithm = "binomial", .loops = {}, .scratch_elements = 0};
  append_binomial_gather(schedule, problem, Buffer::output);
  if (problem.rank == problem.root && !problem.in_place)
    append_round(
        schedule,
        {1, 1, {copy_of(Buffer::output, Blocks(problem).at(problem.root), Buffer::input, 0)}});
  return schedule;
}

}  // namespace tutti::algorithm
