// Broadcast, pipelined chain: every rank forwards each chunk while it receives the next.
//
//     time ►  1   2   3   4   5       rounds        p − 2 + n/chunk
//     0 ► 1   a   b   c               bytes sent    n, the last rank 0
//     1 ► 2       a   b   c           chosen        large buffers
//     2 ► 3           a   b   c
//
// Paper: J. Pješivac-Grbović, T. Angskun, G. Bosilca, G. E. Fagg, E. Gabriel and J. J. Dongarra,
// Performance Analysis of MPI Collective Operations, Cluster Computing 10(2), 2007 (their
// "pipeline"). The chain follows the order by host, so the buffer enters each host once.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

Schedule broadcast_chain(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "chain", .loops = {}, .scratch_elements = 0};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  const RankOrder order(arguments, arguments.root);
  const int own = order.position();
  Loop loop;
  loop.inner_count = chunk_count(arguments);
  if (own > 0)
    loop.steps.push_back(recv_from(order.rank_at(own - 1), Buffer::output, chunk_of(arguments)));
  if (own < arguments.size - 1)
    loop.steps.push_back(send_to(order.rank_at(own + 1), Buffer::output, chunk_of(arguments)));
  schedule.loops.push_back(std::move(loop));
  return schedule;
}

}  // namespace tutti::algorithm
