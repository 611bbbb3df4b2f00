// Reduce, gathered, in rank order: all contributions move up a binomial tree to the root, which
// combines them in rank order in one pass.
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

Schedule reduce_gathered(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("gathered", arguments);
  Schedule schedule{.algorithm = "gathered", .loops = {}, .scratch_elements = 0};
  append_binomial_gather(schedule, arguments, Buffer::scratch);
  if (arguments.rank != arguments.root) return schedule;
  const Blocks blocks(arguments);
  schedule.scratch_elements = blocks.total();
  append_round(schedule,
               {1,
                1,
                {copy_of(Buffer::scratch, blocks.at(arguments.root), own_buffer(arguments), 0),
                 combine_from(Buffer::output, whole(arguments.count), Buffer::scratch, {},
                              arguments.size, arguments.count)}});
  return schedule;
}

}  // namespace tutti::algorithm
