// All-gather, ring: each block travels once round the ring. Also for blocks of different lengths.
//
//     p = 4, block that a rank sends:         rounds        p − 1
//     rank 0   0  3  2                        bytes sent    all blocks but the right neighbour's
//     rank 1   1  0  3                        scratch       none
//     rank 2   2  1  0                        chosen        large blocks; all_gather_v on one host
//     rank 3   3  2  1
//
// Paper: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication
// Operations in MPICH, International Journal of High Performance Computing Applications 19(1),
// 2005. The ring follows the order by host: each host's link carries each block once in and once
// out.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/blocks.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

namespace {

class AllGatherRing {
 public:
  explicit AllGatherRing(const ScheduleArguments& arguments)
      : arguments_(arguments), blocks_(arguments), order_(arguments, 0) {}

  Schedule run() {
    const int own = order_.position();
    for (int round = 0; round < arguments_.size - 1; ++round) {
      const Region given = block_of(own - round);
      const Region taken = block_of(own - round - 1);
      Loop loop{1,
                std::max(chunks(given), chunks(taken)),
                {send_to(order_.rank_at(own + 1), Buffer::output, piece(given)),
                 recv_from(order_.rank_at(own - 1), Buffer::output, piece(taken))}};
      if (round == 0 && !arguments_.in_place) send_and_copy_input(loop, given);
      append_round(schedule_, std::move(loop));
    }
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] Region block_of(int position) const { return blocks_.at(order_.rank_at(position)); }
  [[nodiscard]] std::int64_t chunk_of_block(const Region& block) const {
    return even_chunk(arguments_, block.length());
  }
  [[nodiscard]] std::int64_t chunks(const Region& block) const {
    return divide_up(block.length(), chunk_of_block(block));
  }
  [[nodiscard]] Piece piece(const Region& block) const {
    return chunk_of(block, chunk_of_block(block));
  }

  // The copy of a large block would delay the first send, so both go chunk by chunk.
  void send_and_copy_input(Loop& loop, const Region& own) const {
    loop.steps[0] =
        send_to(loop.steps[0].peer, Buffer::input, piece({.begin = 0, .end = own.length()}));
    loop.steps.push_back(
        local(StepKind::copy, Buffer::output, Buffer::input, piece(own), {-own.begin}));
  }

  const ScheduleArguments& arguments_;
  Blocks blocks_;
  RankOrder order_;
  Schedule schedule_{.algorithm = "ring", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule all_gather_ring(const ScheduleArguments& arguments) {
  return arguments.size == 1 ? alone("ring", arguments) : AllGatherRing(arguments).run();
}

}  // namespace tutti::algorithm
