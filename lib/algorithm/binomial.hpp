#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "algorithm/blocks.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

/// The binomial tree on positions, with the root at position 0. A position's parent differs in its
/// lowest set bit; its children set one bit below that. Its subtree is the range from itself to the
/// next multiple of that bit.
class BinomialTree {
 public:
  explicit BinomialTree(const ScheduleArguments& arguments)
      : order_(arguments, arguments.root),
        own_(order_.position()),
        reach_(own_ == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(arguments.size)))
                         : own_ & -own_) {}

  [[nodiscard]] const RankOrder& order() const { return order_; }
  [[nodiscard]] bool is_root() const { return own_ == 0; }
  [[nodiscard]] int parent() const { return order_.rank_at(own_ - reach_); }
  /// The lowest set bit: distances to children are the powers of two below it.
  [[nodiscard]] int reach() const { return reach_; }
  [[nodiscard]] bool has_child(int distance) const { return own_ + distance < order_.size(); }
  [[nodiscard]] int child(int distance) const { return order_.rank_at(own_ + distance); }
  /// Ranks in the subtree of the child at `distance`, and in this rank's subtree.
  [[nodiscard]] int ranks_below(int distance) const {
    return std::min(distance, order_.size() - own_ - distance);
  }
  [[nodiscard]] int ranks() const { return std::min(reach_, order_.size() - own_); }
  /// At the root: the regions of that child's subtree in a buffer of all blocks, in order of
  /// positions. Adjacent blocks are merged: few regions remain if each host has consecutive ranks.
  [[nodiscard]] std::vector<Region> blocks_below(int distance, const Blocks& blocks) const;

 private:
  RankOrder order_;
  int own_;
  int reach_;
};

/// Gathers blocks of arguments.count elements from `input` into `at_root`, the root's buffer of all
/// blocks; the root's own block is not copied. The other ranks need `scratch_elements` of the
/// resulting schedule.
void append_binomial_gather(Schedule& schedule, const ScheduleArguments& arguments, Buffer at_root);

}  // namespace tutti::algorithm
