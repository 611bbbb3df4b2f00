#pragma once

#include <vector>

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// The ranks of each host, in the order of ranks, for schedules that are made of schedules inside
/// hosts and between them. Hosts are numbered from 0 without gaps, in the order of Problem::host.
class HostGroups {
 public:
  explicit HostGroups(const Problem& problem);

  [[nodiscard]] int hosts() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int fewest() const noexcept { return fewest_; }  ///< ranks on a host
  [[nodiscard]] int most() const noexcept { return most_; }
  /// The own host, the number of ranks there, and the own place among them.
  [[nodiscard]] int host() const noexcept { return host_; }
  [[nodiscard]] int here() const noexcept { return static_cast<int>(of(host_).size()); }
  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] int rank_here(int index) const {
    return of(host_)[static_cast<std::size_t>(index)];
  }
  /// The rank at the own place on the next host, or on the one before; the first follows the last.
  /// Only where all hosts have such a place.
  [[nodiscard]] int next() const { return rank_on(host_ + 1); }
  [[nodiscard]] int previous() const { return rank_on(host_ + hosts() - 1); }

 private:
  [[nodiscard]] const std::vector<int>& of(int host) const {
    return ranks_[static_cast<std::size_t>(host)];
  }
  [[nodiscard]] int rank_on(int host) const {
    return of(host % hosts())[static_cast<std::size_t>(index_)];
  }

  std::vector<std::vector<int>> ranks_;
  int fewest_ = 0;
  int most_ = 0;
  int host_ = 0;
  int index_ = 0;
};

}  // namespace tutti::algorithm
