// Scan and exclusive scan, pipelined chain: every rank adds its contribution to the sum of the
// ranks before it, and passes that on while it receives the next chunk.
//
//     time ►  1   2   3   4   5       rounds        p − 2 + n/chunk
//     0 ► 1   a   b   c               bytes sent    n
//     1 ► 2       a   b   c           scratch       none; exclusive 8 chunks
//     2 ► 3           a   b   c       chosen        large buffers
//
// The chain follows the order of ranks. In an exclusive scan a rank keeps the sum that it receives,
// and passes on another.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::algorithm {

namespace {

// Chunks in flight: one is sent while others are received.
constexpr std::int64_t scan_chunks_in_flight = 8;

// Chunk i·slots + j uses slot j of scratch.
Loop keep_and_pass_on(const ScheduleArguments& arguments, std::int64_t slots) {
  const std::int64_t turn = slots * arguments.chunk;
  const Affine shift{0, turn, 0};
  const Piece slot{.offset = {0, 0, arguments.chunk},
                   .length = arguments.chunk,
                   .end = {arguments.count, -turn, 0}};
  const Piece chunk{
      .offset = {0, turn, arguments.chunk}, .length = arguments.chunk, .end = {arguments.count}};
  return {.outer_count = divide_up(chunk_count(arguments), slots),
          .inner_count = slots,
          .steps = {local(StepKind::copy, Buffer::scratch, own_buffer(arguments), slot, shift),
                    recv_from(arguments.rank - 1, Buffer::output, chunk),
                    local(StepKind::reduce, Buffer::scratch, Buffer::output, slot, shift),
                    send_to(arguments.rank + 1, Buffer::scratch, slot)}};
}

}  // namespace

Schedule scan_chain(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("chain", arguments);
  Schedule schedule{.algorithm = "chain", .loops = {}, .scratch_elements = 0};
  const Piece chunk = chunk_of(arguments);
  Loop loop{1, chunk_count(arguments), {}};
  if (arguments.rank == 0) {
    loop.steps.push_back(send_to(1, own_buffer(arguments), chunk));
    if (!arguments.in_place)
      loop.steps.push_back(local(StepKind::copy, Buffer::output, Buffer::input, chunk));
  } else {
    loop.steps.push_back(
        recv_reduce_from(arguments.rank - 1, Buffer::output, own_buffer(arguments), chunk));
    if (arguments.rank + 1 < arguments.size)
      loop.steps.push_back(send_to(arguments.rank + 1, Buffer::output, chunk));
  }
  schedule.loops.push_back(std::move(loop));
  return schedule;
}

Schedule exclusive_scan_chain(const ScheduleArguments& arguments) {
  Schedule schedule{.algorithm = "chain", .loops = {}, .scratch_elements = 0};
  if (arguments.size == 1 || arguments.count == 0) return schedule;
  const Piece chunk = chunk_of(arguments);
  const std::int64_t chunks = chunk_count(arguments);
  if (arguments.rank == 0) {
    schedule.loops.push_back({1, chunks, {send_to(1, Buffer::input, chunk)}});
  } else if (arguments.rank + 1 == arguments.size) {
    schedule.loops.push_back({1, chunks, {recv_from(arguments.rank - 1, Buffer::output, chunk)}});
  } else {
    const std::int64_t slots = std::min(chunks, scan_chunks_in_flight);
    schedule.scratch_elements = std::min(arguments.count, slots * arguments.chunk);
    schedule.loops.push_back(keep_and_pass_on(arguments, slots));
  }
  return schedule;
}

}  // namespace tutti::algorithm
