// Reduce, gathered, in rank order: all contributions come to the root as they are, up a binomial
// tree; the root combines them in the order of ranks, at once.
//
//     scratch of the root                     rounds        ceil(log2 p)
//     | from 0 | from 1 | … | from p − 1 |    bytes sent    n times the ranks of the subtree
//     output = from 0 ⊕ from 1 ⊕ …            scratch       root p·n, others as gather_binomial
//                                             chosen        small buffers, in rank order
//
// Paper: as gather_binomial.cpp.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "binomial.hpp"

namespace tutti::algorithm {

Schedule reduce_gathered(const Problem& given) {
  const Problem problem = in_place_at_root(given);
  if (problem.size == 1) return alone("gathered", problem);
  Schedule schedule{.algorithm = "gathered", .loops = {}, .scratch_elements = 0};
  append_binomial_gather(schedule, problem, Buffer::scratch);
  if (problem.rank != problem.root) return schedule;
  const Blocks blocks(problem);
  schedule.scratch_elements = blocks.total();
  append_round(schedule,
               {1,
                1,
                {copy_of(Buffer::scratch, blocks.at(problem.root), own_buffer(problem), 0),
                 combine_from(Buffer::output, whole(problem.count), Buffer::scratch, {},
                              problem.size, problem.count)}});
  return schedule;
}

}  // namespace tutti::algorithm
