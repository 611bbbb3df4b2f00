// Reduce-scatter, segmented ring: the sum of each block travels once round the ring, to the block's
// rank. Also for blocks of different lengths.
//
//     p = 4, block that a rank sends:         rounds        p − 1
//     rank 0   3  2  1                        bytes sent    all blocks but its own
//     rank 1   0  3  2                        scratch       2 segments; 1 for p = 3, 0 for p = 2
//     rank 2   1  0  3                        chosen        large blocks
//     rank 3   2  1  0
//
// Paper: P. Patarasuk and X. Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of
// Workstations, Journal of Parallel and Distributed Computing 69(2), 2009: the first half. The ring
// follows the order by host.
//
// Input must not change, so partial sums stay in scratch: one half receives a sum while the other
// sends the previous one. To bound scratch, blocks are split into segments of a few chunks, and
// each pass moves one segment of every block. A loop iteration has two rounds, so that the halves
// of scratch alternate within it.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

namespace {

// Enough to reduce one chunk while others are in flight.
constexpr std::int64_t chunks_a_segment = 8;

class ReduceScatterRing {
 public:
  explicit ReduceScatterRing(const ScheduleArguments& arguments)
      : arguments_(arguments),
        blocks_(arguments),
        order_(arguments, 0),
        mine_(own_buffer(arguments)),
        chunk_(even_chunk(arguments, blocks_.longest())),
        chunks_(std::min(chunks_a_segment, divide_up(blocks_.longest(), chunk_))),
        segment_(chunks_ * chunk_) {}

  Schedule run() {
    if (blocks_.total() == 0) return std::move(schedule_);
    schedule_.passes = divide_up(blocks_.longest(), segment_);
    schedule_.scratch_elements = std::min(arguments_.size - 2, 2) * segment_;
    for (int round = 0; round < arguments_.size - 1; round += 2) {
      Loop loop{1, chunks_, {send(round), take(round)}};
      if (round + 1 < arguments_.size - 1) {
        loop.steps.push_back(send(round + 1));
        loop.steps.push_back(take(round + 1));
      }
      append_round(schedule_, std::move(loop));
    }
    return std::move(schedule_);
  }

 private:
  // The block that a round receives is the one that the next round sends.
  [[nodiscard]] Region block_taken(int round) const {
    return blocks_.at(order_.rank_at(order_.position() - round - 2));
  }

  // Chunk j of this pass's segment of a block that begins at `begin`.
  [[nodiscard]] Piece in_buffer(std::int64_t begin, std::int64_t length) const {
    return {.offset = {begin, 0, chunk_, segment_}, .length = chunk_, .end = {begin + length}};
  }
  [[nodiscard]] Piece in_scratch(int round, std::int64_t length) const {
    const std::int64_t begin = round % 2 * segment_;
    return {.offset = {begin, 0, chunk_, 0},
            .length = chunk_,
            .end = {begin + length, 0, 0, -segment_}};
  }

  [[nodiscard]] StepPattern send(int round) const {
    const Region block = block_taken(round - 1);
    const int right = order_.rank_at(order_.position() + 1);
    if (round == 0) return send_to(right, mine_, in_buffer(block.begin, block.length()));
    return send_to(right, Buffer::scratch, in_scratch(round - 1, block.length()));
  }

  [[nodiscard]] StepPattern take(int round) const {
    const Region block = block_taken(round);
    const bool last = round == arguments_.size - 2;
    const Piece from = in_buffer(block.begin, block.length());
    const Piece to = last ? in_buffer(arguments_.in_place ? block.begin : 0, block.length())
                          : in_scratch(round, block.length());
    return recv_reduce_from(order_.rank_at(order_.position() - 1),
                            last ? Buffer::output : Buffer::scratch, mine_, to,
                            from.offset - to.offset);
  }

  const ScheduleArguments& arguments_;
  Blocks blocks_;
  RankOrder order_;
  Buffer mine_;
  std::int64_t chunk_;
  std::int64_t chunks_;  // in a segment
  std::int64_t segment_;
  Schedule schedule_{.algorithm = "ring", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule reduce_scatter_ring(const ScheduleArguments& arguments) {
  return arguments.size == 1 ? alone("ring", arguments) : ReduceScatterRing(arguments).run();
}

}  // namespace tutti::algorithm
