// Scan and exclusive scan, recursive doubling: in the round of distance d every rank adds the sum
// of the d ranks that end d before it. The number of contributions in each sum doubles.
//
//     0 ► 1 ► 2 ► 3          rounds        ceil(log2 p); exclusive one more, of p − 1 ranks
//     0 ────► 2              bytes sent    n a round
//        1 ────► 3           scratch       n
//                            chosen        small buffers
//
// Paper: W. D. Hillis and G. L. Steele, Data Parallel Algorithms, Communications of the ACM 29(12),
// 1986. An exclusive scan begins with a shift to the next rank; rank 0 then has no part in the
// rest.
//
// Sums have the same bits as with the other algorithms only if their operator is associative.
#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::algorithm {

namespace {

class PrefixDoubling {
 public:
  explicit PrefixDoubling(const ScheduleArguments& arguments)
      : arguments_(arguments), mine_(own_buffer(arguments)) {}

  Schedule inclusive() {
    if (arguments_.rank == 0 && !arguments_.in_place)
      add_loop({local(StepKind::copy, Buffer::output, Buffer::input, piece())});
    add_rounds(0);
    return schedule_;
  }

  Schedule exclusive() {
    const int rank = arguments_.rank;
    std::vector<StepPattern> shift;
    if (rank + 1 < arguments_.size)
      shift.push_back(send_to(rank + 1, rank == 0 ? Buffer::input : mine_, piece()));
    if (rank > 0 && mine_ == Buffer::input) {
      shift.push_back(recv_from(rank - 1, Buffer::output, piece()));
    } else if (rank > 0) {
      // The own contribution may still be on its way.
      schedule_.scratch_elements = arguments_.count;
      shift.push_back(recv_from(rank - 1, Buffer::scratch, piece()));
      shift.push_back(local(StepKind::copy, Buffer::output, Buffer::scratch, piece()));
    }
    add_loop(std::move(shift));
    mine_ = Buffer::output;
    if (rank > 0) add_rounds(1);
    return schedule_;
  }

 private:
  [[nodiscard]] Piece piece() const { return chunk_of(arguments_); }

  void add_loop(std::vector<StepPattern> steps) {
    schedule_.loops.push_back({1, chunk_count(arguments_), std::move(steps)});
  }

  /// Among the ranks from `first` on.
  void add_rounds(int first) {
    const int rank = arguments_.rank;
    for (int distance = 1; first + distance < arguments_.size; distance *= 2) {
      std::vector<StepPattern> steps;
      if (rank + distance < arguments_.size)
        steps.push_back(send_to(rank + distance, mine_, piece()));
      if (rank - distance >= first) add_sum(steps, rank - distance);
      if (!steps.empty()) add_loop(std::move(steps));
      if (rank - distance >= first) mine_ = Buffer::output;
    }
  }

  void add_sum(std::vector<StepPattern>& steps, int peer) {
    if (mine_ == Buffer::input) {
      // Only here can data be reduced on arrival: the region sent is not the one written.
      steps.push_back(recv_reduce_from(peer, Buffer::output, mine_, piece()));
      return;
    }
    schedule_.scratch_elements = arguments_.count;
    steps.push_back(recv_from(peer, Buffer::scratch, piece()));
    steps.push_back(local(StepKind::reduce, Buffer::output, Buffer::scratch, piece()));
  }

  const ScheduleArguments& arguments_;
  Buffer mine_;  // where this rank's sum currently is
  Schedule schedule_{.algorithm = "recursive_doubling", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule scan_recursive_doubling(const ScheduleArguments& arguments) {
  if (arguments.size == 1) return alone("recursive_doubling", arguments);
  return PrefixDoubling(arguments).inclusive();
}

Schedule exclusive_scan_recursive_doubling(const ScheduleArguments& arguments) {
  if (arguments.size == 1)
    return {.algorithm = "recursive_doubling", .loops = {}, .scratch_elements = 0};
  return PrefixDoubling(arguments).exclusive();
}

}  // namespace tutti::algorithm
