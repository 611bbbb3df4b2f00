// Reduce, pipelined chain: every rank adds its contribution to each chunk and forwards it while it
// receives the next.
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

// Chunks in flight: one is sent while others are received.
constexpr std::int64_t chunks_in_flight = 8;

// Chunk i·slots + j uses slot j of scratch.
Loop add_and_pass_on(const ScheduleArguments& arguments, int from, int to, std::int64_t slots) {
  const std::int64_t turn = slots * arguments.chunk;
  const Piece slot{.offset = {0, 0, arguments.chunk},
                   .length = arguments.chunk,
                   .end = {arguments.count, -turn, 0}};
  return {.outer_count = divide_up(chunk_count(arguments), slots),
          .inner_count = slots,
          .steps = {recv_reduce_from(from, Buffer::scratch, Buffer::input, slot, {0, turn, 0}),
                    send_to(to, Buffer::scratch, slot)}};
}

}  // namespace

Schedule reduce_chain(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("chain", arguments);
  Schedule schedule{.algorithm = "chain", .loops = {}, .scratch_elements = 0};
  if (arguments.count == 0) return schedule;
  const RankOrder order(arguments, arguments.root);
  const int own = order.position();
  const std::int64_t chunks = chunk_count(arguments);
  const Piece chunk = chunk_of(arguments);
  if (own == 0) {
    schedule.loops.push_back(
        {1,
         chunks,
         {recv_reduce_from(order.rank_at(1), Buffer::output, own_buffer(arguments), chunk)}});
  } else if (own == arguments.size - 1) {
    schedule.loops.push_back({1, chunks, {send_to(order.rank_at(own - 1), Buffer::input, chunk)}});
  } else {
    const std::int64_t slots = std::min(chunks, chunks_in_flight);
    schedule.scratch_elements = std::min(arguments.count, slots * arguments.chunk);
    schedule.loops.push_back(
        add_and_pass_on(arguments, order.rank_at(own + 1), order.rank_at(own - 1), slots));
  }
  return schedule;
}

}  // namespace tutti::algorithm
