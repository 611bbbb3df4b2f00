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
// Between hosts, hosts pair off in this way, and in each meeting every rank of one exchanges blocks
// with every rank of the other: rank by rank, several ranks of a host would send to one other host
// while others' links are idle. With an odd number of hosts one would be without a partner: then
// ranks pair off regardless of hosts. Blocks of different lengths are never in place, so each host
// sends to the host d after it and receives from the host d before it, d = 1, 2, …
//
// The ranks of a host pair off among themselves and exchange their blocks through shared memory if
// they have it. Blocks of different lengths always are messages: a host's ranks do not know how
// many chunks the others need.
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

/// Whom a rank sends to and receives from in a round; itself if it has nobody.
struct Round {
  int to;
  int from;
};

/// Hosts meet one after the other where they can, and in each meeting all their ranks exchange
/// blocks, so that a host's link carries blocks to one host and from one host at a time.
class Rounds {
 public:
  /// In place, a rank sends to the rank from which it receives; others have to take the same order.
  Rounds(const HostGroups& groups, int size, bool may_be_in_place) : groups_(groups) {
    const int hosts = groups.hosts();
    if (hosts % 2 == 0) {
      for (int meeting = 0; meeting < meetings_of(hosts); ++meeting) {
        const int host = partner_of(groups.host(), hosts, meeting);
        meet(host, host);
      }
      meet_inside();
    } else if (!may_be_in_place) {
      // In pairs one host would have to wait.
      for (int distance = 1; distance < hosts; ++distance) {
        meet(groups.host_at(distance), groups.host_at(-distance));
      }
      meet_inside();
    } else {
      for (int round = 0; round < meetings_of(size); ++round) {
        append(partner_of(groups.rank_here(groups.index()), size, round));
      }
    }
  }

  [[nodiscard]] const std::vector<Round>& all() const { return rounds_; }

 private:
  void append(int partner) { rounds_.push_back({partner, partner}); }
  void meet_inside() {
    const int here = groups_.here();
    for (int turn = 0; turn < meetings_of(here); ++turn) {
      append(groups_.rank_here(partner_of(groups_.index(), here, turn)));
    }
  }
  void meet(int receiver, int sender) {
    const int most = groups_.max_ranks();
    for (int turn = 0; turn < most; ++turn) {
      const int index = (turn + most - groups_.index()) % most;
      rounds_.push_back({rank_or_self(receiver, index), rank_or_self(sender, index)});
    }
  }
  [[nodiscard]] int rank_or_self(int host, int index) const {
    return index < std::ssize(groups_.ranks_of(host)) ? groups_.rank_at(host, index)
                                                      : groups_.rank_here(groups_.index());
  }

  const HostGroups& groups_;
  std::vector<Round> rounds_;
};

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
    const Rounds rounds(groups_, arguments_.size, false);
    for (const auto [to, from] : rounds.all()) {
      std::vector<StepPattern> steps;
      if (to != arguments_.rank) {
        steps.push_back(send_to(to, Buffer::input, whole(given_.at(to))));
      }
      if (from != arguments_.rank) {
        steps.push_back(recv_from(from, Buffer::output, whole(taken_.at(from))));
      }
      if (!steps.empty()) append_round(schedule_, {1, 1, std::move(steps)});
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
    const Rounds rounds(groups_, arguments_.size, true);
    int number = 0;
    for (const auto& round : rounds.all()) {
      auto steps = exchange(round, chunk, chunks * chunk);
      // In the same rounds on all ranks, so that nobody waits for a later round of another.
      if (groups_.shares() && number < meetings_of(groups_.here()))
        append_inside(steps, number, chunk, chunks * chunk);
      append_round(schedule_, {1, chunks, std::move(steps)});
      ++number;
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

  [[nodiscard]] bool is_by_message(int peer) const {
    return peer != arguments_.rank && !groups_.shares_with(peer);
  }

  [[nodiscard]] std::vector<StepPattern> exchange(const Round& round, std::int64_t chunk,
                                                  std::int64_t segment) const {
    std::vector<StepPattern> steps;
    if (is_by_message(round.to)) {
      const Piece piece = piece_of(round.to, chunk, segment);
      if (arguments_.in_place) {
        const Piece aside{
            .offset = {0, 0, chunk}, .length = chunk, .end = {arguments_.count, 0, 0, -segment}};
        steps.push_back(local(StepKind::copy, Buffer::scratch, Buffer::output, aside,
                              piece.offset - aside.offset));
        steps.push_back(send_to(round.to, Buffer::scratch, aside));
      } else {
        steps.push_back(send_to(round.to, Buffer::input, piece));
      }
    }
    if (is_by_message(round.from)) {
      steps.push_back(recv_from(round.from, Buffer::output, piece_of(round.from, chunk, segment)));
    }
    return steps;
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
