// Gather, binomial tree: every rank forwards the blocks of its subtree together.
//
//     0 ◄ 1  2 ◄ 3  4 ◄ 5  6 ◄ 7   rounds        ceil(log2 p)
//     0 ◄──── 2-3  4 ◄──── 6-7     bytes sent    the blocks of the subtree, the root 0
//     0 ◄────────────── 4-7        scratch       the blocks of the subtree but the own
//                                  chosen        small blocks
//
// Paper: S. L. Johnsson and C.-T. Ho, Optimum Broadcasting and Personalized Communication in
// Hypercubes, IEEE Transactions on Computers 38(9), 1989. The tree uses positions of the order by
// host. The root receives the blocks of a message one by one where consecutive positions are not
// consecutive ranks.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "binomial.hpp"

namespace tutti::algorithm {

Schedule gather_binomial(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("binomial", arguments);
  Schedule schedule{.algorithm = "binomial", .loops = {}, .scratch_elements = 0};
  append_binomial_gather(schedule, arguments, Buffer::output);
  if (arguments.rank == arguments.root && !arguments.in_place)
    append_round(
        schedule,
        {1, 1, {copy_of(Buffer::output, Blocks(arguments).at(arguments.root), Buffer::input, 0)}});
  return schedule;
}

}  // namespace tutti::algorithm
