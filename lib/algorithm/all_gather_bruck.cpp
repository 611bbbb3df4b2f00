// All-gather, Bruck: in each round every rank receives as many blocks as it has, from the rank at
// that distance.
//
//     p = 6          has     gets from        rounds        ceil(log2 p)
//     round 0        0       1: 1             bytes sent    (p − 1)/p·n
//     round 1        0-1     2: 2             scratch       none
//     round 2        0-2     3: 3-5           chosen        small blocks
//
// Paper: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, Efficient Algorithms for
// All-to-All Communications in Multiport Message-Passing Systems, IEEE Transactions on Parallel and
// Distributed Systems 8(11), 1997. Their algorithm doubles distances and rotates the blocks at the
// end; here each block is received at its final position, split where blocks wrap around.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "circulant.hpp"

namespace tutti::algorithm {

Schedule all_gather_bruck(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "bruck", .loops = {}, .scratch_elements = 0};
  const Blocks blocks(arguments);
  if (!arguments.in_place)
    append_round(schedule,
                 {1, 1, {copy_of(Buffer::output, blocks.at(arguments.rank), Buffer::input, 0)}});
  Circulant(RankOrder::by_rank(arguments), blocks, arguments.chunk)
      .gather(schedule, Buffer::output);
  return schedule;
}

}  // namespace tutti::algorithm
