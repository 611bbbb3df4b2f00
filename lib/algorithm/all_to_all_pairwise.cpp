// All-to-all, pairwise exchange: in round t, ranks whose sum is t, modulo c, exchange their blocks,
// where c is p if that is odd, else p − 1; then rank p − 1 takes the place of who would be alone.
// Also for blocks of different lengths.
//
//     p = 4, partner of a rank:                 rounds        p − 1; p if that is odd
//     round       0  1  2                       bytes sent    all blocks but the own
//     rank 0      3  1  2                       scratch       none; in place 8 chunks
//     rank 1      2  0  3 …                     chosen        all but very small blocks; always for
//                                                             all_to_all_v
//
// Paper: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication
// Operations in MPICH, International Journal of High Performance Computing Applications 19(1),
// 2005, there with partners r xor t, which needs a power of two.
//
// In place, a block comes where one has to leave. Neither partner may wait for its own send to be
// taken before it takes the other's, so chunks leave by way of scratch. Each pass does a few chunks
// of every block, on all ranks alike, whether they work in place or not.
#include <algorithm>
#include <stdexcept>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

namespace {

constexpr std::int64_t chunks_a_pass = 8;
constexpr int long_block_window = 8;

class Pairwise {
 public:
  explicit Pairwise(const Problem& problem)
      : problem_(problem),
        given_(problem),
        taken_(problem.size, problem.count,
               problem.counts.empty() ? problem.counts : problem.recv_counts) {}

  // Blocks of different lengths: each is one step.
  Schedule run_whole() {
    for (int round = 0; round < rounds(); ++round) {
      const int peer = partner(round);
      if (peer == problem_.rank) continue;
      append_round(schedule_, {1,
                               1,
                               {send_to(peer, Buffer::input, whole(given_.at(peer))),
                                recv_from(peer, Buffer::output, whole(taken_.at(peer)))}});
    }
    copy_own();
    return std::move(schedule_);
  }

  Schedule run() {
    if (problem_.count == 0) return std::move(schedule_);
    const std::int64_t chunk = even_chunk(problem_, problem_.count);
    const std::int64_t chunks = std::min(chunks_a_pass, divide_up(problem_.count, chunk));
    schedule_.passes = divide_up(problem_.count, chunks * chunk);
    // Of long blocks a few chunks at a time, so that a rank mostly talks to one partner, and each
    // link carries one stream: streams that share one do not end together.
    if (chunks > 1) schedule_.window = long_block_window;
    if (problem_.in_place) schedule_.scratch_elements = chunks * chunk;
    for (int round = 0; round < rounds(); ++round) {
      const int peer = partner(round);
      if (peer != problem_.rank)
        append_round(schedule_, {1, chunks, exchange(peer, chunk, chunks * chunk)});
    }
    if (!problem_.in_place) {
      const Piece own = piece_of(problem_.rank, chunk, chunks * chunk);
      append_round(schedule_,
                   {1, chunks, {local(StepKind::copy, Buffer::output, Buffer::input, own)}});
    }
    return std::move(schedule_);
  }

 private:
  /// In the round of its own, a rank has nobody. An even number of ranks needs no such rounds: the
  /// last one takes the place of who would have nobody.
  [[nodiscard]] int partner(int round) const {
    const bool is_even = problem_.size % 2 == 0;
    const int circle = is_even ? problem_.size - 1 : problem_.size;
    const auto across = [&](int rank) { return (round + circle - rank) % circle; };
    if (!is_even) return across(problem_.rank);
    if (problem_.rank < circle) {
      const int peer = across(problem_.rank);
      return peer == problem_.rank ? circle : peer;
    }
    for (int rank = 0; rank < circle; ++rank) {
      if (across(rank) == rank) return rank;
    }
    return problem_.rank;
  }
  [[nodiscard]] int rounds() const {
    return problem_.size % 2 == 0 ? problem_.size - 1 : problem_.size;
  }

  void copy_own() {
    const int own = problem_.rank;
    append_round(
        schedule_,
        {1, 1, {copy_of(Buffer::output, taken_.at(own), Buffer::input, given_.at(own).begin)}});
  }

  // Chunk j of the pass's segment.
  [[nodiscard]] Piece piece_of(int rank, std::int64_t chunk, std::int64_t segment) const {
    const Region block = given_.at(rank);
    return {.offset = {block.begin, 0, chunk, segment}, .length = chunk, .end = {block.end}};
  }

  [[nodiscard]] std::vector<StepPattern> exchange(int peer, std::int64_t chunk,
                                                  std::int64_t segment) const {
    const Piece piece = piece_of(peer, chunk, segment);
    const StepPattern take = recv_from(peer, Buffer::output, piece);
    if (!problem_.in_place) return {send_to(peer, Buffer::input, piece), take};
    const Piece aside{
        .offset = {0, 0, chunk}, .length = chunk, .end = {problem_.count, 0, 0, -segment}};
    return {
        local(StepKind::copy, Buffer::scratch, Buffer::output, aside, piece.offset - aside.offset),
        send_to(peer, Buffer::scratch, aside), take};
  }

  const Problem& problem_;
  Blocks given_;
  Blocks taken_;
  Schedule schedule_{.algorithm = "pairwise", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule all_to_all_pairwise(const Problem& problem) {
  if (problem.counts.size() != problem.recv_counts.size())
    throw std::invalid_argument("Problem::recv_counts needs one count for each rank");
  if (problem.size == 1) return alone("pairwise", problem);
  return problem.counts.empty() ? Pairwise(problem).run() : Pairwise(problem).run_whole();
}

}  // namespace tutti::algorithm
