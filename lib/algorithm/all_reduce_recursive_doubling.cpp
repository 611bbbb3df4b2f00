// All-reduce, recursive doubling: partners at distances 1, 2, 4, … exchange their sums and add
// them.
//
//     0 ◄─► 1   2 ◄─► 3      rounds        log2 p; for other p floor(log2 p) + 2
//     0 ◄─────► 2            bytes sent    n a round
//        1 ◄─────► 3         chosen        small buffers
//
// Paper: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication
// Operations in MPICH, International Journal of High Performance Computing Applications 19(1),
// 2005. As there, ranks beyond the largest power of two send their data to a neighbour first and
// receive the result last.
//
// Data is received into scratch: both partners send the region that they add to, so neither could
// start a recv_reduce before its own send completes. Sums have the same bits on all ranks if a ⊕ b
// and b ⊕ a have.
#include <bit>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

namespace {

class Doubling {
 public:
  explicit Doubling(const ScheduleArguments& arguments)
      : arguments_(arguments),
        order_(arguments, 0),
        core_(static_cast<int>(std::bit_floor(static_cast<unsigned>(arguments.size)))),
        surplus_(arguments.size - core_),
        mine_(arguments.in_place ? Buffer::output : Buffer::input) {}

  Schedule run() {
    const int own = order_.position();
    const bool paired = own < 2 * surplus_;
    if (paired && own % 2 == 0) {
      add_loop({send_to(order_.rank_at(own + 1), mine_, piece())});
      add_loop({recv_from(order_.rank_at(own + 1), Buffer::output, piece())});
      return schedule_;
    }
    if (paired) add_reduce_from(order_.rank_at(own - 1));
    const int core_rank = paired ? own / 2 : own - surplus_;
    for (int distance = 1; distance < core_; distance *= 2)
      add_exchange(position_of_core(core_rank ^ distance));
    if (paired) add_loop({send_to(order_.rank_at(own - 1), Buffer::output, piece())});
    return schedule_;
  }

 private:
  [[nodiscard]] Piece piece() const { return chunk_of(arguments_); }

  [[nodiscard]] int position_of_core(int core_rank) const {
    return core_rank < surplus_ ? 2 * core_rank + 1 : core_rank + surplus_;
  }

  void add_loop(std::vector<StepPattern> steps) {
    schedule_.loops.push_back({1, chunk_count(arguments_), std::move(steps)});
  }

  void add_reduce_from(int peer) {
    add_loop({recv_reduce_from(peer, Buffer::output, mine_, piece())});
    mine_ = Buffer::output;
  }

  void add_exchange(int position) {
    const int peer = order_.rank_at(position);
    if (mine_ == Buffer::input) {
      // Only here can data be reduced on arrival: the region sent is not the one written.
      add_loop(
          {send_to(peer, mine_, piece()), recv_reduce_from(peer, Buffer::output, mine_, piece())});
      mine_ = Buffer::output;
      return;
    }
    schedule_.scratch_elements = arguments_.count;
    add_loop({send_to(peer, Buffer::output, piece()), recv_from(peer, Buffer::scratch, piece()),
              local(StepKind::reduce, Buffer::output, Buffer::scratch, piece())});
  }

  const ScheduleArguments& arguments_;
  RankOrder order_;
  int core_;     // largest power of two ≤ size
  int surplus_;  // ranks beyond it: the first 2·surplus positions form pairs
  Buffer mine_;  // where this rank's sum currently is
  Schedule schedule_{.algorithm = "recursive_doubling", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule all_reduce_recursive_doubling(const ScheduleArguments& arguments) {
  if (arguments.size > 1 && arguments.count > 0) return Doubling(arguments).run();
  Schedule schedule{.algorithm = "recursive_doubling", .loops = {}, .scratch_elements = 0};
  if (!arguments.in_place && arguments.count > 0)
    schedule.loops.push_back(
        {1, 1, {local(StepKind::copy, Buffer::output, Buffer::input, whole(arguments.count))}});
  return schedule;
}

}  // namespace tutti::algorithm
