// All-reduce, gathered, in rank order: every rank receives all contributions, as in Bruck's
// all-gather, and combines them in rank order in one pass.
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

Schedule all_reduce_gathered(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("gathered", arguments);
  Schedule schedule{.algorithm = "gathered", .loops = {}, .scratch_elements = 0};
  const Blocks blocks(arguments);
  schedule.scratch_elements = blocks.total();
  append_round(
      schedule,
      {1, 1, {copy_of(Buffer::scratch, blocks.at(arguments.rank), own_buffer(arguments), 0)}});
  Circulant(RankOrder::by_rank(arguments), blocks, arguments.chunk)
      .gather(schedule, Buffer::scratch);
  append_round(schedule, {1,
                          1,
                          {combine_from(Buffer::output, whole(arguments.count), Buffer::scratch, {},
                                        arguments.size, arguments.count)}});
  return schedule;
}

}  // namespace tutti::algorithm
