#include "binomial.hpp"

#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

std::vector<Region> BinomialTree::blocks_below(int distance, const Blocks& blocks) const {
  std::vector<Region> regions;
  const int end = own_ + distance + ranks_below(distance);
  for (int position = own_ + distance; position < end;) {
    const int first = order_.rank_at(position);
    int last = first;
    while (++position < end && order_.rank_at(position) == last + 1) ++last;
    regions.push_back(blocks.range(first, last + 1));
  }
  return regions;
}

void append_binomial_gather(Schedule& schedule, const ScheduleArguments& arguments,
                            Buffer at_root) {
  const BinomialTree tree(arguments);
  const std::int64_t count = arguments.count;
  for (int distance = 1; distance < tree.reach(); distance *= 2) {
    if (!tree.has_child(distance)) continue;
    const int child = tree.child(distance);
    if (tree.is_root()) {
      for (const Region& blocks : tree.blocks_below(distance, Blocks(arguments)))
        append_round(schedule, {1, 1, {recv_from(child, at_root, whole(blocks))}});
      continue;
    }
    const std::int64_t begin = (distance - 1) * count;
    const Region blocks{begin, begin + tree.ranks_below(distance) * count};
    append_round(schedule, {1, 1, {recv_from(child, Buffer::scratch, whole(blocks))}});
  }
  if (tree.is_root()) return;
  schedule.scratch_elements = (tree.ranks() - 1) * count;
  append_round(schedule, {1, 1, {send_to(tree.parent(), Buffer::input, whole(count))}});
  if (tree.ranks() > 1)
    append_round(
        schedule,
        {1, 1, {send_to(tree.parent(), Buffer::scratch, whole(schedule.scratch_elements))}});
}

}  // namespace tutti::algorithm
