// All-to-all, Bruck: a block for the rank at distance d makes one hop for each power of two in d,
// packed with all other blocks that make the same hop.
//
//     p = 6, blocks by distance          rounds        ceil(log2 p)
//     round 0   1 3 5   go 1 on          bytes sent    about n/2 a round
//     round 1   2 3     go 2 on          scratch       p + 2·floor(p/2) blocks
//     round 2   4 5     go 4 on          chosen        very small blocks, 8 ranks or more
//
// Paper: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, Efficient Algorithms for
// All-to-All Communications in Multiport Message-Passing Systems, IEEE Transactions on Parallel and
// Distributed Systems 8(11), 1997.
//
// Scratch holds the blocks by distance, then the packed blocks to send, then the received ones. The
// blocks of a round are groups of 2^k neighbours, every other group of the buffer.
#include <algorithm>

#include "algorithm/algorithms.hpp"
#include "algorithm/patterns.hpp"
#include "algorithm/rounds.hpp"

namespace tutti::algorithm {

namespace {

class Bruck {
 public:
  explicit Bruck(const ScheduleArguments& arguments)
      : arguments_(arguments),
        leaving_(arguments.size * arguments.count),
        coming_(leaving_ + arguments.size / 2 * arguments.count) {}

  Schedule run() {
    schedule_.scratch_elements = coming_ + arguments_.size / 2 * arguments_.count;
    sort_by_distance();
    for (int distance = 1; distance < arguments_.size; distance *= 2) add_hop(distance);
    sort_by_source();
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] int wrap(int rank) const { return (rank + arguments_.size) % arguments_.size; }
  [[nodiscard]] Region block(int index) const {
    return {index * arguments_.count, (index + 1) * arguments_.count};
  }

  // Moves the block for rank + d to position d.
  void sort_by_distance() {
    for (int distance = 0; distance < arguments_.size; ++distance)
      append_round(schedule_, {1,
                               1,
                               {copy_of(Buffer::scratch, block(distance), own_buffer(arguments_),
                                        block(wrap(arguments_.rank + distance)).begin)}});
  }

  // The block received at distance d comes from rank - d.
  void sort_by_source() {
    for (int distance = 0; distance < arguments_.size; ++distance)
      append_round(schedule_, {1,
                               1,
                               {copy_of(Buffer::output, block(wrap(arguments_.rank - distance)),
                                        Buffer::scratch, block(distance).begin)}});
  }

  // Group g contains the distances from (2g + 1)·2^k up to (2g + 2)·2^k, or to the number of ranks.
  void add_hop(int distance) {
    const int groups = (arguments_.size + distance - 1) / (2 * distance);
    for (int g = 0; g < groups; ++g) append_copy(leaving_, g, distance, true);
    const int last = (2 * groups - 1) * distance;
    const int blocks = (groups - 1) * distance + std::min(distance, arguments_.size - last);
    const auto packed = [&](std::int64_t begin) {
      return whole(Region{begin, begin + blocks * arguments_.count});
    };
    append_round(schedule_,
                 {1,
                  1,
                  {send_to(wrap(arguments_.rank + distance), Buffer::scratch, packed(leaving_)),
                   recv_from(wrap(arguments_.rank - distance), Buffer::scratch, packed(coming_))}});
    for (int g = 0; g < groups; ++g) append_copy(coming_, g, distance, false);
  }

  void append_copy(std::int64_t packed, int g, int distance, bool packs) {
    const int first = (2 * g + 1) * distance;
    const int last = std::min(first + distance, arguments_.size);
    const Region sorted{block(first).begin, block(last).begin};
    const std::int64_t begin = packed + arguments_.count * g * distance;
    const Region together{begin, begin + sorted.length()};
    append_round(schedule_,
                 {1,
                  1,
                  {packs ? copy_of(Buffer::scratch, together, Buffer::scratch, sorted.begin)
                         : copy_of(Buffer::scratch, sorted, Buffer::scratch, begin)}});
  }

  const ScheduleArguments& arguments_;
  std::int64_t leaving_;  // begin of the packed blocks in scratch
  std::int64_t coming_;
  Schedule schedule_{.algorithm = "bruck", .loops = {}, .scratch_elements = 0};
};

}  // namespace

Schedule all_to_all_bruck(const ScheduleArguments& arguments) {
  return arguments.size == 1 ? alone("bruck", arguments) : Bruck(arguments).run();
}

}  // namespace tutti::algorithm
