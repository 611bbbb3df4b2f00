// Reduce-scatter, pairwise, in rank order: every rank sends each other rank its block; the receiver
// combines all contributions in rank order in one pass. Also for blocks of different lengths.
//
//     rank r   to r + 1, from r − 1           rounds        p − 1
//              to r + 2, from r − 2           bytes sent    all blocks but its own
//              …                              scratch       p chunks
//              combine                        chosen        always in rank order
//
// Paper: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication
// Operations in MPICH, International Journal of High Performance Computing Applications 19(1),
// 2005, with a sum after each round.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "raw_exchange.hpp"

namespace tutti::algorithm {

Schedule reduce_scatter_pairwise(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("pairwise", arguments);
  Schedule schedule{.algorithm = "pairwise", .loops = {}, .scratch_elements = 0};
  const RawExchange exchange(arguments, Blocks(arguments));
  const Region own = exchange.blocks().at(arguments.rank);
  const Region result = arguments.in_place ? own : Region{0, own.length()};
  schedule.passes = exchange.passes();
  schedule.scratch_elements = exchange.scratch_elements();
  exchange.append(schedule, Buffer::output, exchange.chunk_of_pass(result));
  return schedule;
}

}  // namespace tutti::algorithm
