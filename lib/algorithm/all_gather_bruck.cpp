// All-gather, Bruck: in each round everyone gets as many blocks as it has, from the rank that many
// further on.
//
//     p = 6          has     gets from        rounds        ceil(log2 p)
//     round 0        0       1: 1             bytes sent    (p − 1)/p·n
//     round 1        0-1     2: 2             scratch       none
//     round 2        0-2     3: 3-5           chosen        small blocks
//
// Paper: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, Efficient Algorithms for
// All-to-All Communications in Multiport Message-Passing Systems, IEEE Transactions on Parallel and
// Distributed Systems 8(11), 1997. There, blocks are turned into place at the end, and distances
// double; here each block goes to its place at once, cut in two where blocks wrap around.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "circulant.hpp"

namespace tutti::algorithm {

Schedule all_gather_bruck(const Problem& problem) {
  Schedule schedule{.algorithm = "bruck", .loops = {}, .scratch_elements = 0};
  const Blocks blocks(problem);
  if (!problem.in_place)
    append_round(schedule,
                 {1, 1, {copy_of(Buffer::output, blocks.at(problem.rank), Buffer::input, 0)}});
  Circulant(RankOrder::by_rank(problem), blocks, problem.chunk).gather(schedule, Buffer::output);
  return schedule;
}

}  // namespace tutti::algorithm
