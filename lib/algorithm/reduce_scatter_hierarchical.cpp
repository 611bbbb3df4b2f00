// Reduce-scatter, hierarchical: the ranks of a host reduce their contributions to each block
// through shared memory, and one of them sends the sum to the block's rank. Also for blocks of
// different lengths.
//
//     2 hosts with 2 ranks                        rounds        1 between hosts; inside, 1 if all
//                                                               blocks fit in one, else more
//        0 ◄─ blocks 0, 2 ─► 1 ◄─ blocks 1, 3     bytes sent    to each rank of other hosts that
//        0 ── sum of block 2 ─► 2                               has this rank's index: one block
//        1 ── sum of block 3 ─► 3  and back       scratch       the blocks that it sends, or 2
//                                                               chunks of each for one host
//                                                 chosen        several hosts with several ranks
//
// The sum of a block is sent by its rank's counterpart, the rank with the same index on the sending
// host; a host with fewer ranks deals the blocks out in turn. Without shared memory the other ranks
// of the host send it their contributions.
//
// Paper: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk and J. Bresnahan,
// Exploiting Hierarchy in Parallel Computer Networks to Optimize Collective Operation Performance,
// IPDPS 2000, for the hosts.
//
// Long blocks move in passes of two chunks, so that a chunk is reduced while the one before is on
// its way.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

namespace {

class ReduceScatterOfHosts {
 public:
  explicit ReduceScatterOfHosts(const ScheduleArguments& arguments)
      : arguments_(arguments),
        blocks_(arguments),
        groups_(arguments),
        neighbours_(groups_.neighbours()),
        mine_(own_buffer(arguments)),
        publishes_all_(blocks_.total() <= arguments.max_published) {
    const auto limit = publishes_all_ ? blocks_.longest() : published_chunk(arguments);
    const auto longest = std::max<std::int64_t>(1, blocks_.longest());
    chunk_ = divide_up(longest, divide_up(longest, std::max<std::int64_t>(1, limit)));
    chunks_ = std::min<std::int64_t>(2, divide_up(longest, chunk_));
    schedule_.passes = divide_up(longest, chunks_ * chunk_);
    for (int turn = 0; turn < groups_.hosts(); ++turn) {
      std::vector<int> led;
      for (const int rank : groups_.ranks_of(groups_.host_at(turn)))
        if (counterpart(rank) == arguments.rank) led.push_back(rank);
      led_.push_back(std::move(led));
    }
  }

  Schedule run() {
    if (blocks_.total() == 0) return std::move(schedule_);
    if (publishes_all_) {
      reduce_all_inside();
      for (int turn = 1; turn < groups_.hosts(); ++turn) {
        std::vector<StepPattern> steps;
        exchange(steps, turn);
        append(std::move(steps));
      }
      return std::move(schedule_);
    }
    // The own block first, since what other hosts send is added to it.
    for (int turn = 0; turn < groups_.hosts(); ++turn) {
      std::vector<StepPattern> steps;
      for (const auto& run : runs_of(groups_.host_at(turn))) reduce_inside(steps, run, turn);
      if (turn > 0) exchange(steps, turn);
      append(std::move(steps));
    }
    return std::move(schedule_);
  }

 private:
  using Ranks = std::vector<int>;

  /// The rank of this host that has the host's sum of the block of `rank`.
  [[nodiscard]] int counterpart(int rank) const {
    return groups_.counterpart_on(groups_.host(), rank);
  }

  void append(std::vector<StepPattern> steps) {
    append_round(schedule_, {1, chunks_, std::move(steps)});
  }

  /// The host's ranks whose blocks are published in one chunk, one after the other in memory.
  [[nodiscard]] std::vector<Ranks> runs_of(int host) const {
    std::vector<Ranks> runs;
    for (const int rank : groups_.ranks_of(host)) {
      const bool fits =
          !runs.empty() && runs.back().back() + 1 == rank && is_whole() &&
          blocks_.range(runs.back().front(), rank + 1).length() <= arguments_.max_published;
      if (fits) {
        runs.back().push_back(rank);
      } else {
        runs.push_back({rank});
      }
    }
    return runs;
  }
  /// Each block is one chunk.
  [[nodiscard]] bool is_whole() const { return chunk_ >= blocks_.longest(); }

  // Chunk j of the pass, in the buffer of all blocks.
  [[nodiscard]] Piece in_blocks(int rank) const {
    const Region block = blocks_.at(rank);
    return {.offset = {block.begin, 0, chunk_, segment()}, .length = chunk_, .end = {block.end}};
  }
  /// Where this rank has the sum of the block of `rank`: in output if it is its own.
  struct Sum {
    Buffer buffer = Buffer::output;
    Piece piece;
  };
  [[nodiscard]] Sum sum_of(int rank) {
    const std::int64_t length = blocks_.at(rank).length();
    if (rank == arguments_.rank) {
      const auto begin = arguments_.in_place ? blocks_.at(rank).begin : 0;
      return {Buffer::output,
              {.offset = {begin, 0, chunk_, segment()}, .length = chunk_, .end = {begin + length}}};
    }
    if (neighbours_.empty()) return {mine_, in_blocks(rank)};
    const auto begin = begin_in_scratch(rank);
    const auto end = begin + std::min(length, segment());
    schedule_.scratch_elements = std::max(schedule_.scratch_elements, end);
    return {Buffer::scratch,
            {.offset = {begin, 0, chunk_},
             .length = chunk_,
             .end = {begin + length, 0, 0, -segment()}}};
  }
  [[nodiscard]] std::int64_t segment() const { return chunks_ * chunk_; }
  /// Where a sum begins in scratch. With all blocks in one chunk each has memory of its own; else
  /// those of the next host take the place of those of the host before.
  [[nodiscard]] std::int64_t begin_in_scratch(int rank) const {
    std::int64_t begin = 0;
    for (std::size_t turn = 1; turn < led_.size(); ++turn) {
      if (!publishes_all_) begin = 0;
      for (const int other : led_[turn]) {
        if (other == rank) return begin;
        begin += publishes_all_ ? blocks_.at(other).length() : segment();
      }
    }
    return begin;
  }

  /// Steps that add the neighbours' contributions to a block that this rank leads.
  void add_contributions(std::vector<StepPattern>& steps, int rank) {
    const Sum sum = sum_of(rank);
    const Affine shift = in_blocks(rank).offset - sum.piece.offset;
    for (const int peer : neighbours_) {
      const bool first = peer == neighbours_.front();
      const Buffer from = first ? mine_ : sum.buffer;
      auto step = groups_.shares() ? read_reduce_of(peer, sum.buffer, from, sum.piece)
                                   : recv_reduce_from(peer, sum.buffer, from, sum.piece);
      if (first) step.from_shift = shift;
      if (groups_.shares()) step.remote_shift = shift;
      steps.push_back(step);
    }
  }

  void reduce_inside(std::vector<StepPattern>& steps, const Ranks& run, int turn) {
    if (neighbours_.empty()) return;
    const auto& led = led_[static_cast<std::size_t>(turn)];
    if (groups_.shares()) {
      steps.push_back(publish_of(mine_, run.size() == 1
                                            ? in_blocks(run.front())
                                            : whole(blocks_.range(run.front(), run.back() + 1))));
    }
    for (const int rank : run) {
      if (std::find(led.begin(), led.end(), rank) != led.end()) {
        add_contributions(steps, rank);
      } else if (!groups_.shares()) {
        steps.push_back(send_to(counterpart(rank), mine_, in_blocks(rank)));
      }
    }
    if (groups_.shares()) steps.push_back(release_chunk());
  }

  /// In one chunk: first what other hosts wait for.
  void reduce_all_inside() {
    if (neighbours_.empty()) return;
    std::vector<StepPattern> steps;
    if (!groups_.shares()) {
      for (int host = 0; host < groups_.hosts(); ++host) {
        const int turn = (host + groups_.hosts() - groups_.host()) % groups_.hosts();
        reduce_inside(steps, groups_.ranks_of(host), turn);
      }
      return append(std::move(steps));
    }
    steps.push_back(publish_of(mine_, whole(blocks_.total())));
    for (int turn = 1; turn <= groups_.hosts(); ++turn) {
      for (const int rank : led_[static_cast<std::size_t>(turn % groups_.hosts())])
        add_contributions(steps, rank);
    }
    steps.push_back(release_chunk());
    append(std::move(steps));
  }

  /// Sends sums to the ranks of the host `turn` after this one, and receives one from the host
  /// `turn` before it.
  void exchange(std::vector<StepPattern>& steps, int turn) {
    const int own = arguments_.rank;
    const Sum sum = sum_of(own);
    const bool only_mine = neighbours_.empty() && turn == 1;
    const Affine shift = only_mine ? in_blocks(own).offset - sum.piece.offset : Affine{};
    const auto recv =
        recv_reduce_from(groups_.counterpart_on(groups_.host_at(-turn), own), Buffer::output,
                         only_mine ? mine_ : Buffer::output, sum.piece, shift);
    const auto& led = led_[static_cast<std::size_t>(turn)];
    if (led.empty()) steps.push_back(recv);
    for (const int rank : led) {
      const Sum theirs = sum_of(rank);
      steps.push_back(send_to(rank, theirs.buffer, theirs.piece));
      if (rank == led.front()) steps.push_back(recv);
    }
  }

  const ScheduleArguments& arguments_;
  Blocks blocks_;
  HostGroups groups_;
  Ranks neighbours_;
  Buffer mine_;
  bool publishes_all_;
  std::int64_t chunk_ = 1;
  std::int64_t chunks_ = 1;  // in a pass
  std::vector<Ranks> led_;   // by turn: ranks of that host whose sums this rank makes
  Schedule schedule_{.algorithm = "hierarchical", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule reduce_scatter_hierarchical(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("hierarchical", arguments);
  return ReduceScatterOfHosts(arguments).run();
}

}  // namespace tutti::algorithm
