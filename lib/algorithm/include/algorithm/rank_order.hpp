#pragma once

#include <vector>

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// The order of ranks in chains, rings and trees: `first` leads, its host's ranks follow, then host
/// after host. Neighbours share a host wherever possible, so a chain enters and leaves each host
/// once.
class RankOrder {
 public:
  RankOrder(const ScheduleArguments& arguments, int first);
  /// The order 0, 1, 2, …, independent of hosts: for algorithms whose blocks must be contiguous.
  [[nodiscard]] static RankOrder by_rank(const ScheduleArguments& arguments) {
    return {arguments.size, 0, arguments.rank};
  }

  [[nodiscard]] int size() const noexcept { return size_; }
  /// This rank's position.
  [[nodiscard]] int position() const noexcept { return position_; }
  /// `position` may be up to `size` outside of 0 to size - 1.
  [[nodiscard]] int rank_at(int position) const;

 private:
  RankOrder(int size, int first, int position) : size_(size), first_(first), position_(position) {}

  int size_;
  int first_;
  int position_;
  std::vector<int> ranks_;  // empty if the order is first, first + 1, …
};

}  // namespace tutti::algorithm
