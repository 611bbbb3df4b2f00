#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// Where the blocks of all ranks lie in one buffer: in the order of ranks, without gaps.
class Blocks {
 public:
  /// One of counts[r] elements for each rank r; where `counts` is empty, each of `count`. Throws
  /// std::invalid_argument where there are more or fewer counts than ranks.
  Blocks(int size, std::int64_t count, const std::vector<std::int64_t>& counts)
      : size_(size), longest_(count), total_(size * count) {
    if (counts.empty()) return;
    if (counts.size() != static_cast<std::size_t>(size))
      throw std::invalid_argument("Problem::counts needs one count for each rank");
    begins_.push_back(0);
    for (const std::int64_t length : counts) begins_.push_back(begins_.back() + length);
    longest_ = *std::max_element(counts.begin(), counts.end());
    total_ = begins_.back();
  }
  explicit Blocks(const Problem& problem) : Blocks(problem.size, problem.count, problem.counts) {}

  /// The slices of a buffer of problem.count elements that the ranks, or positions, share out among
  /// them. All are as long as the first but for the last ones, which are shorter or empty.
  [[nodiscard]] static Blocks slices(const Problem& problem) {
    Blocks blocks(problem.size, (problem.count + problem.size - 1) / problem.size, {});
    blocks.total_ = problem.count;
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
  std::vector<std::int64_t> begins_;  // size + 1 of them, or none where blocks are equal
};

}  // namespace tutti::algorithm
