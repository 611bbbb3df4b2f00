// Barrier, dissemination: in round k every rank notifies the rank at distance 2^k, on behalf of all
// ranks it has been notified of.
//
//     rank 0 of 8 is notified of
//     after round 0   7                  rounds        ceil(log2 p)
//     after round 1   7 6 5              bytes sent    1 a round
//     after round 2   7 6 5 4 3 2 1      chosen        always
//
// Paper: D. Hensgen, R. Finkel and U. Manber, Two Algorithms for Barrier Synchronization,
// International Journal of Parallel Programming 17(1), 1988.
//
// Only data orders steps, so the data sent must depend on all data received: round k sends
// scratch[k], and scratch[k + 1] is the received data combined with scratch[k].
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

namespace {

Piece cell(std::int64_t index) {
  return {.offset = {index, 0, 0}, .length = 1, .end = {index + 1}};
}

}  // namespace

Schedule barrier_dissemination(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "dissemination", .loops = {}, .scratch_elements = 1};
  const RankOrder order(arguments, 0);
  std::int64_t round = 0;
  for (int distance = 1; distance < arguments.size; distance *= 2, ++round) {
    const int ahead = order.rank_at(order.position() + distance);
    const int behind = order.rank_at(order.position() - distance);
    schedule.loops.push_back(
        {1,
         1,
         {send_to(ahead, Buffer::scratch, cell(round)),
          recv_from(behind, Buffer::scratch, cell(round + 1)),
          local(StepKind::reduce, Buffer::scratch, Buffer::scratch, cell(round + 1), {-1})}});
  }
  schedule.scratch_elements = round + 1;
  return schedule;
}

}  // namespace tutti::algorithm
