// All-reduce by leaders: each host's leader reduces the contributions of its host, the leaders
// all-reduce by recursive doubling, and distribute the result inside their hosts.
//
//     0 ◄─ 1   2 ◄─ 3        rounds        log2 h between h hosts (as recursive doubling); inside
//     0 ◄────► 2                           one each way, through shared memory
//     0 ─► 1   2 ─► 3        bytes sent    n a round, by leaders
//                            scratch       n
//                            chosen        small buffers, several hosts with several ranks
//
// Papers: as all_reduce_recursive_doubling.cpp and all_reduce_hierarchical.cpp.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "leaders.hpp"

namespace tutti::algorithm {

Schedule all_reduce_leaders(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("leaders", arguments);
  Schedule schedule{.algorithm = "leaders", .loops = {}};
  if (arguments.count == 0) return schedule;
  const Leaders leaders(arguments);
  leaders.append_reduce(schedule, arguments, own_buffer(arguments));
  if (leaders.leads()) {
    leaders.append_between(schedule, all_reduce_recursive_doubling(leaders.between(arguments)));
  }
  leaders.append_broadcast(schedule, arguments);
  return schedule;
}

}  // namespace tutti::algorithm
