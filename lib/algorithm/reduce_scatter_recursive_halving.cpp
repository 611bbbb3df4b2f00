// Reduce-scatter, recursive halving on a circulant graph: in each round every rank sends the far
// half of its remaining sums.
//
//     p = 6          rank 0 keeps     and sends          rounds        ceil(log2 p)
//     round 0        0-2              3-5 to 3           bytes sent    (p − 1)/p·n
//     round 1        0-1              2   to 2           scratch       ceil(p/2) blocks
//     round 2        0                1   to 1           chosen        small blocks
//
// Papers: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication
// Operations in MPICH, International Journal of High Performance Computing Applications 19(1),
// 2005, for halving if p is a power of two. J. L. Träff, Optimal, Non-pipelined Reduce-scatter and
// Allreduce Algorithms, arXiv 2410.14234, 2024, for any p: partners are not r ± p/2, p/4, … but r +
// ceil(p/2), r + ceil(p/4), …, so every rank takes part.
#include "algorithm/algorithms.hpp"
#include "algorithm/rounds.hpp"
#include "circulant.hpp"

namespace tutti::algorithm {

namespace {

class Halving {
 public:
  explicit Halving(const ScheduleArguments& arguments)
      : arguments_(arguments),
        mine_(own_buffer(arguments)),
        circulant_(RankOrder::by_rank(arguments), Blocks(arguments), arguments.chunk),
        result_(arguments.in_place ? Blocks(arguments).at(arguments.rank)
                                   : Region{0, arguments.count}) {}

  Schedule run() {
    const auto rounds = Circulant::rounds(arguments_.size);
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      if (i == 0)
        first_round(rounds[i]);
      else
        round(rounds[i]);
    }
    return std::move(schedule_);
  }

 private:
  // Sums stay in scratch, this rank's block first; the last remaining one is the result.
  void first_round(const CirculantRound& round) {
    const bool last = round.near == 1;
    if (!last) schedule_.scratch_elements = round.near * arguments_.count;
    const auto given = circulant_.after_own(round.near, round.far);
    const auto added = circulant_.after_own(0, round.far - round.near);
    std::int64_t to = last ? result_.begin : 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Region sum{to, to + added[i].length()};
      circulant_.exchange(
          schedule_, send_to(circulant_.ahead(round.near), mine_, circulant_.piece(given[i])),
          recv_reduce_from(circulant_.behind(round.near), last ? Buffer::output : Buffer::scratch,
                           mine_, circulant_.piece(sum), {added[i].begin - to}));
      to = sum.end;
    }
    // With an odd number of ranks nothing is added to the last block yet.
    if (2 * round.near == round.far) return;
    for (const Region& block : circulant_.after_own(round.near - 1, round.near))
      if (!block.empty())
        append_round(
            schedule_,
            {1, 1, {copy_of(Buffer::scratch, {to, to + block.length()}, mine_, block.begin)}});
  }

  void round(const CirculantRound& round) {
    const bool last = round.near == 1;
    const Region given{round.near * arguments_.count, round.far * arguments_.count};
    const Region sum = last ? result_ : Region{0, given.length()};
    circulant_.exchange(
        schedule_, send_to(circulant_.ahead(round.near), Buffer::scratch, circulant_.piece(given)),
        recv_reduce_from(circulant_.behind(round.near), last ? Buffer::output : Buffer::scratch,
                         Buffer::scratch, circulant_.piece(sum), {-sum.begin}));
  }

  const ScheduleArguments& arguments_;
  Buffer mine_;
  Circulant circulant_;
  Region result_;
  Schedule schedule_{.algorithm = "recursive_halving", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule reduce_scatter_recursive_halving(const ScheduleArguments& arguments) {
  return arguments.size == 1 ? alone("recursive_halving", arguments) : Halving(arguments).run();
}

}  // namespace tutti::algorithm
