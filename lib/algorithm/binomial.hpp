#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "algorithm/blocks.hpp"
#include "algorithm/rank_order.hpp"

namespace tutti::algorithm {

/// The binomial tree on positions, with the root at position 0. A position's parent differs in its
/// lowest set bit; its children set one bit below that. Its subtree are the positions from itself
/// up to the next multiple of that bit.
class BinomialTree {
 public:
  explicit BinomialTree(const Problem& problem)
      : order_(problem, problem.root),
        own_(order_.position()),
        reach_(own_ == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(problem.size)))
                         : own_ & -own_) {}

  [[nodiscard]] const RankOrder& order() const { return order_; }
  [[nodiscard]] bool is_root() const { return own_ == 0; }
  [[nodiscard]] int parent() const { return order_.rank_at(own_ - reach_); }
  /// The lowest set bit: distances to children are the powers of two below it.
  [[nodiscard]] int reach() const { return reach_; }
  [[nodiscard]] bool has_child(int distance) const { return own_ + distance < order_.size(); }
  [[nodiscard]] int child(int distance) const { return order_.rank_at(own_ + distance); }
  /// Ranks in the subtree of the child at `distance`, and in the own one.
  [[nodiscard]] int ranks_below(int distance) const {
    return std::min(distance, order_.size() - own_ - distance);
  }
  [[nodiscard]] int ranks() const { return std::min(reach_, order_.size() - own_); }
  /// Of the root: where the blocks of that child's subtree lie in a buffer of all blocks, in the
  /// order of positions. Neighbours make one region: where each host has ranks that follow each
  /// other, there are few.
  [[nodiscard]] std::vector<Region> blocks_below(int distance, const Blocks& blocks) const;

 private:
  RankOrder order_;
  int own_;
  int reach_;
};

/// Gathers blocks of problem.count elements from `input` into `at_root` of the root, which has a
/// place for all; the own one of the root is left out. The others need what `scratch_elements` says
/// then.
void append_binomial_gather(Schedule& schedule, const Problem& problem, Buffer at_root);

}  // namespace tutti::algorithm
