#pragma once

#include <vector>

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// The ranks in the order in which chains, rings and trees walk them: `first` leads, its host's
/// ranks follow, then one host after the other. Neighbours share a host wherever they can, so a
/// walk enters and leaves each host once.
class RankOrder {
 public:
  RankOrder(const Problem& problem, int first);
  /// 0, 1, 2, …, whatever the hosts: for those whose blocks must lie in one piece.
  [[nodiscard]] static RankOrder by_rank(const Problem& problem) {
    return {problem.size, 0, problem.rank};
  }

  [[nodiscard]] int size() const noexcept { return size_; }
  /// Where the own rank stands.
  [[nodiscard]] int position() const noexcept { return position_; }
  /// `position` may lie up to one round outside of 0 to size - 1.
  [[nodiscard]] int rank_at(int position) const;

 private:
  RankOrder(int size, int first, int position) : size_(size), first_(first), position_(position) {}

  int size_;
  int first_;
  int position_;
  std::vector<int> ranks_;  // empty where the order is first, first + 1, …
};

}  // namespace tutti::algorithm
