// Broadcast by leaders: the leaders of the hosts broadcast down a binomial tree, then distribute
// inside their hosts. The root leads its host.
//
//     0 ────► 2              rounds        log2 h between h hosts, one inside
//     0 ─► 1  2 ─► 3         bytes sent    n a child, by leaders
//                            chosen        small buffers, several hosts with several ranks
//
// Broadcast, hierarchical: the same with a chain of leaders, chunk by chunk, so that transfers
// between hosts overlap with those inside.
//
//     time ►   1   2   3     rounds        h − 2 + n/chunk between hosts, one more inside
//     0 ► 2    a   b   c     bytes sent    n, by all leaders but the last
//     2 ► 3        a   b     chosen        large buffers, several hosts with several ranks
//
// Paper: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk and J. Bresnahan,
// Exploiting Hierarchy in Parallel Computer Networks to Optimize Collective Operation Performance,
// IPDPS 2000.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "leaders.hpp"

namespace tutti::algorithm {

Schedule broadcast_leaders(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "leaders", .loops = {}};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  const Leaders leaders(arguments, arguments.root);
  if (leaders.leads()) {
    leaders.append_between(schedule, broadcast_binomial(leaders.between(arguments)));
  }
  leaders.append_broadcast(schedule, arguments);
  return schedule;
}

Schedule broadcast_hierarchical(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "hierarchical", .loops = {}};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  const Leaders leaders(arguments, arguments.root);
  const int hosts = leaders.groups().hosts();
  const int root_host = leaders.groups().host_of(arguments.root);
  const int position = (leaders.groups().host() - root_host + hosts) % hosts;
  const auto leader_at = [&](int place) { return leaders.of_host((root_host + place) % hosts); };
  const auto chunk = published_chunk(arguments);
  const auto piece = chunk_of({0, arguments.count}, chunk);
  Loop loop;
  loop.inner_count = divide_up(arguments.count, chunk);
  if (leaders.leads()) {
    if (position > 0) {
      loop.steps.push_back(recv_from(leader_at(position - 1), Buffer::output, piece));
    }
    if (position < hosts - 1) {
      loop.steps.push_back(send_to(leader_at(position + 1), Buffer::output, piece));
    }
  }
  leaders.append_broadcast_steps(loop.steps, piece);
  schedule.loops.push_back(std::move(loop));
  return schedule;
}

}  // namespace tutti::algorithm
