// Scan and exclusive scan, pairwise, in rank order: each rank receives the contributions of all
// ranks before it, and combines them in rank order in one pass, chunk by chunk.
//
//     scratch of rank 2                       rounds        p − 1
//     | from 0 | from 1 | own |               bytes sent    up to (p − 1)·n
//     output = from 0 ⊕ from 1 ⊕ own          scratch       up to p chunks
//                                             chosen        in rank order
//
// A rank sends to higher ranks first, then receives: the last rank only receives, so that no cycle
// of ranks waits.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::algorithm {

namespace {

Schedule scan_in_order(const ScheduleArguments& arguments, bool includes_own) {
  Schedule schedule{.algorithm = "pairwise", .loops = {}, .scratch_elements = 0};
  const int rank = arguments.rank;
  const std::int64_t chunk = std::min(arguments.chunk, arguments.count);
  const Buffer own = rank == 0 && !includes_own ? Buffer::input : own_buffer(arguments);
  const Piece piece{.offset = {0, chunk}, .length = chunk, .end = {arguments.count}};
  // Where scratch has this chunk of a rank's contribution.
  const auto slot_of = [&](int from) {
    const std::int64_t begin = from * chunk;
    return Piece{.offset = {begin}, .length = chunk, .end = {begin + arguments.count, -chunk}};
  };
  Loop loop{chunk == 0 ? 0 : divide_up(arguments.count, chunk), 1, {}};
  for (int peer = rank + 1; peer < arguments.size; ++peer)
    loop.steps.push_back(send_to(peer, own, piece));
  for (int peer = rank - 1; peer >= 0; --peer)
    loop.steps.push_back(recv_from(peer, Buffer::scratch, slot_of(peer)));
  if (rank > 0) {
    const int parts = includes_own ? rank + 1 : rank;
    schedule.scratch_elements = parts * chunk;
    if (includes_own)
      loop.steps.push_back(
          local(StepKind::copy, Buffer::scratch, own, slot_of(rank), {-rank * chunk, chunk}));
    loop.steps.push_back(
        combine_from(Buffer::output, piece, Buffer::scratch, {0, -chunk}, parts, chunk));
  } else if (includes_own && !arguments.in_place) {
    loop.steps.push_back(local(StepKind::copy, Buffer::output, Buffer::input, piece));
  }
  schedule.loops.push_back(std::move(loop));
  return schedule;
}

}  // namespace

Schedule scan_pairwise(const ScheduleArguments& arguments) {
  return scan_in_order(arguments, true);
}

Schedule exclusive_scan_pairwise(const ScheduleArguments& arguments) {
  return scan_in_order(arguments, false);
}

}  // namespace tutti::algorithm
