// All-reduce, Rabenseifner: reduce-scatter by halving, then all-gather by doubling.
//
//     p = 6, slices that rank 0 still reduces          rounds        2·ceil(log2 p)
//     round 0   0-2   sends 3-5 to 3                   bytes sent    2(p − 1)/p·n
//     round 1   0-1   sends 2   to 2                   scratch       none
//     round 2   0     sends 1   to 1                   chosen        buffers too large for whole
//     round 3   0-1   gets  1   from 1                               exchanges, too small for a
//     round 4   0-2   gets  2   from 2                               ring
//     round 5   all   gets  3-5 from 3
//
// Papers: R. Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004, LNCS 3036.
// J. L. Träff, Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms, arXiv 2410.14234,
// 2024, for any p: a circulant graph needs no extra transfers of whole buffers for a p that is not
// a power of two. Slices belong to positions of the order by host.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "circulant.hpp"

namespace tutti::algorithm {

namespace {

// After the first round all remaining sums are in output. With an odd number of ranks nothing has
// been added to the last of them yet, so it is copied there.
void copy_last(Schedule& schedule, const Circulant& circulant, int near) {
  for (const Region& slice : circulant.after_own(near - 1, near))
    if (!slice.empty())
      append_round(schedule, {1, 1, {copy_of(Buffer::output, slice, Buffer::input, slice.begin)}});
}

}  // namespace

Schedule all_reduce_rabenseifner(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("rabenseifner", arguments);
  Schedule schedule{.algorithm = "rabenseifner", .loops = {}, .scratch_elements = 0};
  const Circulant circulant(RankOrder(arguments, 0), Blocks::slices(arguments), arguments.chunk);
  Buffer mine = own_buffer(arguments);
  for (const CirculantRound& round : Circulant::rounds(arguments.size)) {
    const auto given = circulant.after_own(round.near, round.far);
    const auto added = circulant.after_own(0, round.far - round.near);
    for (std::size_t i = 0; i < given.size(); ++i)
      circulant.exchange(schedule,
                         send_to(circulant.ahead(round.near), mine, circulant.piece(given[i])),
                         recv_reduce_from(circulant.behind(round.near), Buffer::output, mine,
                                          circulant.piece(added[i])));
    if (mine == Buffer::input && 2 * round.near > round.far)
      copy_last(schedule, circulant, round.near);
    mine = Buffer::output;
  }
  circulant.gather(schedule, Buffer::output);
  return schedule;
}

}  // namespace tutti::algorithm
