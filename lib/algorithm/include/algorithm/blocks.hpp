#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// Positions of all ranks' blocks in one buffer: in rank order, without gaps.
class Blocks {
 public:
  /// Block r has counts[r] elements or, if `counts` is empty, `count`. Throws std::invalid_argument
  /// if the number of counts differs from `size`.
  Blocks(int size, std::int64_t count, const std::vector<std::int64_t>& counts)
      : size_(size), longest_(count), total_(size * count) {
    if (counts.empty()) return;
    if (counts.size() != static_cast<std::size_t>(size))
      throw std::invalid_argument("ScheduleArguments::counts needs one count for each rank");
    begins_.push_back(0);
    for (const std::int64_t length : counts) begins_.push_back(begins_.back() + length);
    longest_ = *std::max_element(counts.begin(), counts.end());
    total_ = begins_.back();
  }
  explicit Blocks(const ScheduleArguments& arguments)
      : Blocks(arguments.size, arguments.count, arguments.counts) {}

  /// The slices of a buffer of arguments.count elements, one for each rank or position. All have
  /// the length of the first, except the last ones, which are shorter or empty.
  [[nodiscard]] static Blocks slices(const ScheduleArguments& arguments) {
    Blocks blocks(arguments.size, (arguments.count + arguments.size - 1) / arguments.size, {});
    blocks.total_ = arguments.count;
    return blocks;
  }

  [[nodiscard]] int size() const { return size_; }
  /// `index` from 0 to size - 1.
  [[nodiscard]] Region at(int index) const { return {begin(index), begin(index + 1)}; }
  /// Blocks [first, last).
  [[nodiscard]] Region range(int first, int last) const { return {begin(first), begin(last)}; }
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] std::int64_t longest() const { return longest_; }

 private:
  [[nodiscard]] std::int64_t begin(int index) const {
    return begins_.empty() ? std::min(index * longest_, total_)
                           : begins_[static_cast<std::size_t>(index)];
  }

  int size_;
  std::int64_t longest_;
  std::int64_t total_;
  std::vector<std::int64_t> begins_;  // size + 1 of them; empty if all blocks have the same length
};

}  // namespace tutti::algorithm
