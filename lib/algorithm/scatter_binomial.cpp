// Scatter, binomial tree: every rank receives the blocks of its subtree together and forwards those
// of its children, the farthest first.
//
//     0 ──────────────► 4-7        rounds        ceil(log2 p)
//     0 ────► 2-3  4 ────► 6-7     bytes sent    the blocks of the subtree but the own
//     0 ► 1  2 ► 3  4 ► 5  6 ► 7   scratch       the same, the root none
//                                  chosen        small blocks
//
// Paper: S. L. Johnsson and C.-T. Ho, Optimum Broadcasting and Personalized Communication in
// Hypercubes, IEEE Transactions on Computers 38(9), 1989. The tree uses positions of the order by
// host. The root sends the blocks of a message one by one where consecutive positions are not
// consecutive ranks.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "binomial.hpp"

namespace tutti::algorithm {

namespace {

void append_sends(Schedule& schedule, const ScheduleArguments& arguments,
                  const BinomialTree& tree) {
  for (int distance = tree.reach() / 2; distance > 0; distance /= 2) {
    if (!tree.has_child(distance)) continue;
    const int child = tree.child(distance);
    if (tree.is_root()) {
      for (const Region& blocks : tree.blocks_below(distance, Blocks(arguments)))
        append_round(schedule, {1, 1, {send_to(child, own_buffer(arguments), whole(blocks))}});
      continue;
    }
    const std::int64_t begin = (distance - 1) * arguments.count;
    const Region blocks{begin, begin + tree.ranks_below(distance) * arguments.count};
    append_round(schedule, {1, 1, {send_to(child, Buffer::scratch, whole(blocks))}});
  }
}

}  // namespace

Schedule scatter_binomial(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("binomial", arguments);
  Schedule schedule{.algorithm = "binomial", .loops = {}, .scratch_elements = 0};
  const BinomialTree tree(arguments);
  if (!tree.is_root()) {
    schedule.scratch_elements = (tree.ranks() - 1) * arguments.count;
    append_round(schedule,
                 {1,
                  1,
                  {recv_from(tree.parent(), Buffer::output, whole(arguments.count)),
                   recv_from(tree.parent(), Buffer::scratch, whole(schedule.scratch_elements))}});
  }
  append_sends(schedule, arguments, tree);
  if (tree.is_root() && !arguments.in_place)
    append_round(schedule, {1,
                            1,
                            {copy_of(Buffer::output, {0, arguments.count}, Buffer::input,
                                     arguments.root * arguments.count)}});
  return schedule;
}

}  // namespace tutti::algorithm
