// All-to-all, pairwise exchange: in round t, ranks whose sum is t modulo c exchange their blocks. c
// is p if that is odd, else p − 1; then rank p − 1 is the partner of the rank that would have none.
// Also for blocks of different lengths.
//
//     p = 4, partner of a rank:                 rounds        p − 1; p if that is odd
//     round       0  1  2                       bytes sent    all blocks but its own
//     rank 0      3  1  2                       scratch       none; in place 8 chunks
//     rank 1      2  0  3 …                     chosen        all but small blocks; always for
//                                                             all_to_all_v
//
// Paper: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication
// Operations in MPICH, International Journal of High Performance Computing Applications 19(1),
// 2005, with partners r xor t, which needs a power of two.
//
// In place, a block is received where one must be sent from. Neither partner may wait for its own
// send before it receives, so chunks are sent from scratch. Each pass moves a few chunks of every
// block, on all ranks alike, in place or not.
//
// Between hosts, the ranks of a host pair off in the same way and exchange their blocks through
// shared memory if they have it, and by messages only with ranks of other hosts. Blocks of
// different lengths always are messages: a host's ranks do not know how many chunks the others
// need.
#include <algorithm>
#include <stdexcept>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

namespace {

constexpr std::int64_t chunks_a_pass = 8;
constexpr int long_block_window = 8;

/// Number of rounds in which each of `size` ranks meets each other one.
int meetings_of(int size) {
  return size % 2 == 0 ? size - 1 : size;
}

/// With an odd number of ranks, one rank has no partner in each round, and is its own. With an even
/// number the last rank becomes that partner.
int partner_of(int own, int size, int round) {
  const bool is_even = size % 2 == 0;
  const int circle = is_even ? size - 1 : size;
  const auto across = [&](int rank) { return (round + circle - rank) % circle; };
  if (!is_even) return across(own);
  if (own < circle) {
    const int peer = across(own);
    return peer == own ? circle : peer;
  }
  for (int rank = 0; rank < circle; ++rank) {
    if (across(rank) == rank) return rank;
  }
  return own;
}

class Pairwise {
 public:
  explicit Pairwise(const ScheduleArguments& arguments)
      : arguments_(arguments),
        groups_(arguments),
        given_(arguments),
        taken_(arguments.size, arguments.count,
               arguments.counts.empty() ? arguments.counts : arguments.recv_counts) {}

  // Blocks of different lengths: one step each.
  Schedule run_whole() {
    for (int round = 0; round < meetings_of(arguments_.size); ++round) {
      const int peer = partner_of(arguments_.rank, arguments_.size, round);
      if (peer == arguments_.rank) continue;
      append_round(schedule_, {1,
                               1,
                               {send_to(peer, Buffer::input, whole(given_.at(peer))),
                                recv_from(peer, Buffer::output, whole(taken_.at(peer)))}});
    }
    copy_own();
    return std::move(schedule_);
  }

  Schedule run() {
    if (arguments_.count == 0) return std::move(schedule_);
    // The same on all ranks, whether their hosts share memory or not.
    const bool may_share = groups_.hosts() > 1 && groups_.max_ranks() > 1;
    const auto limit = may_share ? published_chunk(arguments_) : arguments_.chunk;
    const auto chunk = divide_up(arguments_.count, divide_up(arguments_.count, limit));
    const std::int64_t chunks = std::min(chunks_a_pass, divide_up(arguments_.count, chunk));
    schedule_.passes = divide_up(arguments_.count, chunks * chunk);
    // Long blocks use a small window, so that a rank mostly talks to one partner and each link
    // carries one stream: streams that share a link do not end together.
    if (chunks > 1) schedule_.window = long_block_window;
    if (arguments_.in_place) schedule_.scratch_elements = chunks * chunk;
    for (int round = 0; round < meetings_of(arguments_.size); ++round) {
      const int peer = partner_of(arguments_.rank, arguments_.size, round);
      std::vector<StepPattern> steps;
      if (peer != arguments_.rank && !groups_.shares_with(peer))
        steps = exchange(peer, chunk, chunks * chunk);
      // In the same rounds on all ranks, so that nobody waits for a later round of another.
      if (groups_.shares() && round < meetings_of(groups_.here()))
        append_inside(steps, round, chunk, chunks * chunk);
      append_round(schedule_, {1, chunks, std::move(steps)});
    }
    if (!arguments_.in_place) {
      const Piece own = piece_of(arguments_.rank, chunk, chunks * chunk);
      append_round(schedule_,
                   {1, chunks, {local(StepKind::copy, Buffer::output, Buffer::input, own)}});
    }
    return std::move(schedule_);
  }

 private:
  void copy_own() {
    const int own = arguments_.rank;
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
    if (!arguments_.in_place) return {send_to(peer, Buffer::input, piece), take};
    const Piece aside{
        .offset = {0, 0, chunk}, .length = chunk, .end = {arguments_.count, 0, 0, -segment}};
    return {
        local(StepKind::copy, Buffer::scratch, Buffer::output, aside, piece.offset - aside.offset),
        send_to(peer, Buffer::scratch, aside), take};
  }

  /// A round of this host. A rank without a partner publishes nothing.
  void append_inside(std::vector<StepPattern>& steps, int round, std::int64_t chunk,
                     std::int64_t segment) const {
    const int peer = groups_.rank_here(partner_of(groups_.index(), groups_.here(), round));
    if (peer == arguments_.rank) {
      steps.push_back(publish_nothing());
    } else {
      const Piece piece = piece_of(peer, chunk, segment);
      steps.push_back(publish_of(own_buffer(arguments_), piece));
      steps.push_back(read_of(peer, Buffer::output, piece));
      steps.back().remote_shift = {given_.at(arguments_.rank).begin - given_.at(peer).begin};
    }
    steps.push_back(release_chunk());
  }

  const ScheduleArguments& arguments_;
  HostGroups groups_;
  Blocks given_;
  Blocks taken_;
  Schedule schedule_{.algorithm = "pairwise", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule all_to_all_pairwise(const ScheduleArguments& arguments) {
  if (arguments.counts.size() != arguments.recv_counts.size())
    throw std::invalid_argument("ScheduleArguments::recv_counts needs one count for each rank");
  if (arguments.size == 1) return alone("pairwise", arguments);
  return arguments.counts.empty() ? Pairwise(arguments).run() : Pairwise(arguments).run_whole();
}

}  // namespace tutti::algorithm
