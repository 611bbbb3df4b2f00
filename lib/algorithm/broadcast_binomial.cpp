// Broadcast, binomial tree: every owner forwards the whole buffer, to the farthest child first.
//
//     0 ───────────────► 4         rounds        ceil(log2 p)
//     0 ─────► 2   4 ──► 6         bytes sent    root ceil(log2 p)·n, a leaf 0
//     0 ► 1  2 ► 3  4 ► 5  6 ► 7   chosen        small buffers
//
// Paper: S. L. Johnsson and C.-T. Ho, Optimum Broadcasting and Personalized Communication in
// Hypercubes, IEEE Transactions on Computers 38(9), 1989. The tree uses positions of the order by
// host: its long edges come first and cross hosts, its short ones stay inside.
#include <bit>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

Schedule broadcast_binomial(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "binomial", .loops = {}, .scratch_elements = 0};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  const RankOrder order(arguments, arguments.root);
  const int own = order.position();
  // A rank's parent differs in its lowest set bit; its children set one bit below that.
  const int lowest = own == 0
                         ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(arguments.size)))
                         : own & -own;
  Loop loop;
  if (own != 0)
    loop.steps.push_back(
        recv_from(order.rank_at(own - lowest), Buffer::output, whole(arguments.count)));
  for (int distance = lowest / 2; distance > 0; distance /= 2)
    if (own + distance < arguments.size)
      loop.steps.push_back(
          send_to(order.rank_at(own + distance), Buffer::output, whole(arguments.count)));
  schedule.loops.push_back(std::move(loop));
  return schedule;
}

}  // namespace tutti::algorithm
