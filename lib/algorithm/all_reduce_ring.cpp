// All-reduce, segmented ring: each slice is reduced on its first way round the ring and distributed
// on its second.
//
//     p = 4, slice that a rank sends:        rounds        2(p − 1), each n/p in chunks
//              reduce     distribute         bytes sent    2(p − 1)/p·n
//     rank 0   0  3  2    1  0  3            chosen        large buffers
//     rank 1   1  0  3    2  1  0
//     rank 2   2  1  0    3  2  1
//     rank 3   3  2  1    0  3  2
//
// Paper: P. Patarasuk and X. Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of
// Workstations, Journal of Parallel and Distributed Computing 69(2), 2009. The ring follows the
// order by host: each host's link carries the ring once in and once out.
//
// The schedule proceeds chunk by chunk: a chunk of the next round waits only for the same chunk of
// this round.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

namespace {

// A slice is a whole number of equal chunks, so that one affine end, the count, clips every piece.
struct Slices {
  std::int64_t chunks;
  std::int64_t chunk;

  explicit Slices(const ScheduleArguments& arguments) {
    const std::int64_t share = divide_up(arguments.count, arguments.size);
    chunks = divide_up(share, arguments.chunk);
    chunk = divide_up(share, chunks);
  }
  [[nodiscard]] std::int64_t length() const { return chunks * chunk; }
};

class AllReduceRing {
 public:
  explicit AllReduceRing(const ScheduleArguments& arguments)
      : arguments_(arguments), slices_(arguments), order_(arguments, 0) {}

  Schedule run() {
    const std::int64_t rounds = arguments_.size - 1;
    const int own = order_.position();
    const Buffer mine = arguments_.in_place ? Buffer::output : Buffer::input;
    add_rounds(0, 1, own, mine, StepKind::recv_reduce, mine);
    add_rounds(1, rounds, own, Buffer::output, StepKind::recv_reduce, mine);
    add_rounds(0, rounds, (own + 1) % arguments_.size, Buffer::output, StepKind::recv,
               Buffer::output);
    return schedule_;
  }

 private:
  // Round s sends slice first - s and receives slice first - s - 1, both modulo p. An affine loop
  // cannot wrap around, so it is split where one of them does.
  void add_rounds(std::int64_t begin, std::int64_t end, std::int64_t first, Buffer sent,
                  StepKind taking, Buffer added) {
    const std::int64_t cuts[] = {begin, std::clamp(first, begin, end),
                                 std::clamp(first + 1, begin, end), end};
    for (int piece = 0; piece < 3; ++piece) {
      const std::int64_t s = cuts[piece];
      if (s == cuts[piece + 1]) continue;
      const std::int64_t send_slice = first - s + (s > first ? arguments_.size : 0);
      const std::int64_t take_slice = first - s - 1 + (s >= first ? arguments_.size : 0);
      StepPattern take = recv_reduce_from(order_.rank_at(order_.position() - 1), Buffer::output,
                                          added, falling(take_slice));
      take.kind = taking;
      schedule_.loops.push_back(
          {cuts[piece + 1] - s,
           slices_.chunks,
           {send_to(order_.rank_at(order_.position() + 1), sent, falling(send_slice)), take}});
    }
  }

  // Chunk j of slice - i.
  [[nodiscard]] Piece falling(std::int64_t slice) const {
    return {.offset = {slice * slices_.length(), -slices_.length(), slices_.chunk},
            .length = slices_.chunk,
            .end = arguments_.count};
  }

  const ScheduleArguments& arguments_;
  Slices slices_;
  RankOrder order_;
  Schedule schedule_{.algorithm = "ring", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule all_reduce_ring(const ScheduleArguments& arguments) {
  if (arguments.size > 1 && arguments.count > 0) return AllReduceRing(arguments).run();
  Schedule schedule{.algorithm = "ring", .loops = {}, .scratch_elements = 0};
  if (!arguments.in_place && arguments.count > 0)
    schedule.loops.push_back(
        {1, 1, {local(StepKind::copy, Buffer::output, Buffer::input, whole(arguments.count))}});
  return schedule;
}

}  // namespace tutti::algorithm
