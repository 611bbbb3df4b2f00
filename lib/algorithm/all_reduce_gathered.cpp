// All-reduce, gathered, in rank order: everyone gets all contributions as they are, as in Bruck's
// all-gather, and combines them in the order of ranks, at once.
//
//     scratch of each rank                    rounds        ceil(log2 p)
//     | from 0 | from 1 | … | from p − 1 |    bytes sent    (p − 1)·n
//     output = from 0 ⊕ from 1 ⊕ …            scratch       p·n
//                                             chosen        small buffers, in rank order
//
// Paper: as all_gather_bruck.cpp.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "circulant.hpp"

namespace tutti::algorithm {

Schedule all_reduce_gathered(const Problem& problem) {
  if (problem.size == 1) return alone("gathered", problem);
  Schedule schedule{.algorithm = "gathered", .loops = {}, .scratch_elements = 0};
  const Blocks blocks(problem);
  schedule.scratch_elements = blocks.total();
  append_round(schedule,
               {1, 1, {copy_of(Buffer::scratch, blocks.at(problem.rank), own_buffer(problem), 0)}});
  Circulant(RankOrder::by_rank(problem), blocks, problem.chunk).gather(schedule, Buffer::scratch);
  append_round(schedule, {1,
                          1,
                          {combine_from(Buffer::output, whole(problem.count), Buffer::scratch, {},
                                        problem.size, problem.count)}});
  return schedule;
}

}  // namespace tutti::algorithm
