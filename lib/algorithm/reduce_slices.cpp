// Reduce, slices, in rank order: rank r receives slice r of all contributions, combines them in
// rank order in one pass, and sends the result to the root.
//
//     chunk k of slice   0    1    2          rounds        2(p − 1) a pass, a chunk of each
//     rank 0 gives       ⊕    1    2                        slice in each pass
//     rank 1 gives       0    ⊕    2          bytes sent    n, the root (p − 1)/p·n
//     rank 2 gives       0    1    ⊕          scratch       p + 1 chunks, the root p
//     then each ⊕ goes to the root            chosen        large buffers, in rank order
//
// Paper: R. Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004, LNCS 3036:
// reduce-scatter, then gather. Both send directly from rank to rank here, so that nothing is
// reduced on the way, and each element is rounded once.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "raw_exchange.hpp"

namespace tutti::algorithm {

Schedule reduce_slices(const ScheduleArguments& given) {
  const ScheduleArguments arguments = in_place_at_root(given);
  if (arguments.size == 1) return alone("slices", arguments);
  Schedule schedule{.algorithm = "slices", .loops = {}, .scratch_elements = 0};
  const RawExchange exchange(arguments, Blocks::slices(arguments));
  const int size = arguments.size;
  const int root = arguments.root;
  const auto slice = [&](int rank) { return exchange.chunk_of_pass(exchange.blocks().at(rank)); };
  schedule.passes = exchange.passes();
  schedule.scratch_elements = exchange.scratch_elements();
  if (arguments.rank != root) {
    const std::int64_t length = exchange.blocks().at(arguments.rank).length();
    const Piece result = exchange.in_scratch(schedule.scratch_elements, length);
    schedule.scratch_elements += exchange.chunk();
    exchange.append(schedule, Buffer::scratch, result);
    append_round(schedule, {1, 1, {send_to(root, Buffer::scratch, result)}});
    return schedule;
  }
  exchange.append(schedule, Buffer::output, slice(root));
  for (int distance = 1; distance < size; ++distance) {
    const int peer = (root + distance) % size;
    append_round(schedule, {1, 1, {recv_from(peer, Buffer::output, slice(peer))}});
  }
  return schedule;
}

}  // namespace tutti::algorithm
