// Reduce, pipelined chain: every rank adds its part to each chunk and hands it on while the next
// one comes in.
//
//     time ►  1   2   3   4   5       rounds        p − 2 + n/chunk
//     3 ► 2   a   b   c               bytes sent    n, the root 0
//     2 ► 1       a   b   c           scratch       8 chunks; the root and the last rank none
//     1 ► 0           a   b   c       chosen        large buffers
//
// Paper: J. Pješivac-Grbović, T. Angskun, G. Bosilca, G. E. Fagg, E. Gabriel and J. J. Dongarra,
// Performance Analysis of MPI Collective Operations, Cluster Computing 10(2), 2007 (their
// "pipeline"). The chain follows the order by host, from its end to the root, so sums leave each
// host once.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

namespace {

// Sums on their way: one leaves, others come in.
constexpr std::int64_t chunks_on_their_way = 8;

// Chunk i·slots + j goes through slot j of scratch.
Loop add_and_pass_on(const Problem& problem, int from, int to, std::int64_t slots) {
  const std::int64_t turn = slots * problem.chunk;
  const Piece slot{
      .offset = {0, 0, problem.chunk}, .length = problem.chunk, .end = {problem.count, -turn, 0}};
  return {.outer_count = divide_up(chunk_count(problem), slots),
          .inner_count = slots,
          .steps = {recv_reduce_from(from, Buffer::scratch, Buffer::input, slot, {0, turn, 0}),
                    send_to(to, Buffer::scratch, slot)}};
}

}  // namespace

Schedule reduce_chain(const Problem& given) {
  const Problem problem = in_place_at_root(given);
  if (problem.size == 1) return alone("chain", problem);
  Schedule schedule{.algorithm = "chain", .loops = {}, .scratch_elements = 0};
  if (problem.count == 0) return schedule;
  const RankOrder order(problem, problem.root);
  const int own = order.position();
  const std::int64_t chunks = chunk_count(problem);
  const Piece chunk = chunk_of(problem);
  if (own == 0) {
    schedule.loops.push_back(
        {1,
         chunks,
         {recv_reduce_from(order.rank_at(1), Buffer::output, own_buffer(problem), chunk)}});
  } else if (own == problem.size - 1) {
    schedule.loops.push_back({1, chunks, {send_to(order.rank_at(own - 1), Buffer::input, chunk)}});
  } else {
    const std::int64_t slots = std::min(chunks, chunks_on_their_way);
    schedule.scratch_elements = std::min(problem.count, slots * problem.chunk);
    schedule.loops.push_back(
        add_and_pass_on(problem, order.rank_at(own + 1), order.rank_at(own - 1), slots));
  }
  return schedule;
}

}  // namespace tutti::algorithm
