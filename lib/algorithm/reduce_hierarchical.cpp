// Reduce, hierarchical: each host's leader reduces the contributions of its host, adds the sums of
// its children in a binomial tree of hosts, and sends the result to its parent, chunk by chunk. The
// root leads its host.
//
//     0 ◄─ 1   2 ◄─ 3        rounds        log2 h between h hosts, one inside
//     0 ◄───── 2             bytes sent    n by leaders, the root 0
//                            scratch       n at leaders but the root
//                            chosen        several hosts with several ranks
//
// Paper: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk and J. Bresnahan,
// Exploiting Hierarchy in Parallel Computer Networks to Optimize Collective Operation Performance,
// IPDPS 2000.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "binomial.hpp"
#include "leaders.hpp"

namespace tutti::algorithm {

Schedule reduce_hierarchical(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("hierarchical", arguments);
  Schedule schedule{.algorithm = "hierarchical", .loops = {}};
  if (arguments.count == 0) return schedule;
  const Leaders leaders(arguments, arguments.root);
  const Buffer sum = arguments.rank == arguments.root ? Buffer::output : Buffer::scratch;
  Buffer mine = own_buffer(arguments);
  const auto chunk = published_chunk(arguments);
  const auto piece = chunk_of({0, arguments.count}, chunk);
  std::vector<StepPattern> steps;
  leaders.append_reduce_steps(steps, piece, mine, sum);
  if (leaders.leads()) {
    if (!leaders.neighbours().empty()) mine = sum;
    const BinomialTree tree(leaders.between(arguments));
    for (int distance = 1; distance < tree.reach(); distance *= 2) {
      if (!tree.has_child(distance)) continue;
      steps.push_back(recv_reduce_from(leaders.of_host(tree.child(distance)), sum, mine, piece));
      mine = sum;
    }
    if (!tree.is_root()) {
      steps.push_back(send_to(leaders.of_host(tree.parent()), mine, piece));
    }
    if (mine == Buffer::scratch) schedule.scratch_elements = arguments.count;
  }
  schedule.loops.push_back({1, divide_up(arguments.count, chunk), std::move(steps)});
  return schedule;
}

}  // namespace tutti::algorithm
