// Barrier, dissemination: in round k everyone tells the rank 2^k further on what it has heard so
// far.
//
//     rank 0 of 8 has heard of
//     after round 0   7                  rounds        ceil(log2 p)
//     after round 1   7 6 5              bytes sent    1 a round
//     after round 2   7 6 5 4 3 2 1      chosen        always
//
// Paper: D. Hensgen, R. Finkel and U. Manber, Two Algorithms for Barrier Synchronization,
// International Journal of Parallel Programming 17(1), 1988.
//
// Steps wait for each other only through data, so what is sent has to be made of all that was
// received: scratch[k] goes out in round k, and scratch[k + 1] is what comes in, joined with
// scratch[k].
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

namespace {

Piece cell(std::int64_t index) {
  return {.offset = {index, 0, 0}, .length = 1, .end = {index + 1}};
}

}  // namespace

Schedule barrier_dissemination(const Problem& problem) {
  Schedule schedule{.algorithm = "dissemination", .loops = {}, .scratch_elements = 1};
  const RankOrder order(problem, 0);
  std::int64_t round = 0;
  for (int distance = 1; distance < problem.size; distance *= 2, ++round) {
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
