// All-reduce, slices, in rank order: rank r receives slice r of all contributions, combines them in
// rank order in one pass, and sends the result to all.
//
//     chunk k of slice   0    1    2          rounds        2(p − 1) a pass, a chunk of each
//     rank 0 gives       ⊕    1    2                        slice in each pass
//     rank 1 gives       0    ⊕    2          bytes sent    2(p − 1)/p·n
//     rank 2 gives       0    1    ⊕          scratch       p chunks
//     then each ⊕ goes to all                 chosen        large buffers, in rank order
//
// Paper: R. Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004, LNCS 3036:
// reduce-scatter, then all-gather. Both send directly from rank to rank here, so that nothing is
// reduced on the way, and each element is rounded once.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "raw_exchange.hpp"

namespace tutti::algorithm {

Schedule all_reduce_slices(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("slices", arguments);
  Schedule schedule{.algorithm = "slices", .loops = {}, .scratch_elements = 0};
  const RawExchange exchange(arguments, Blocks::slices(arguments));
  const int size = arguments.size;
  const int own = arguments.rank;
  const auto slice = [&](int rank) { return exchange.chunk_of_pass(exchange.blocks().at(rank)); };
  schedule.passes = exchange.passes();
  schedule.scratch_elements = exchange.scratch_elements();
  exchange.append(schedule, Buffer::output, slice(own));
  for (int distance = 1; distance < size; ++distance) {
    const int ahead = (own + distance) % size;
    const int behind = (own + size - distance) % size;
    append_round(schedule, {1,
                            1,
                            {send_to(ahead, Buffer::output, slice(own)),
                             recv_from(behind, Buffer::output, slice(behind))}});
  }
  return schedule;
}

}  // namespace tutti::algorithm
