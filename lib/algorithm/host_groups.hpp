#pragma once

#include <vector>

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// The ranks of each host, in rank order, for schedules composed of schedules inside hosts and
/// between them. Hosts are numbered from 0 without gaps, in the order of ScheduleArguments::host.
class HostGroups {
 public:
  explicit HostGroups(const ScheduleArguments& arguments);

  [[nodiscard]] int hosts() const noexcept { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int min_ranks() const noexcept { return min_ranks_; }  ///< ranks on a host
  [[nodiscard]] int max_ranks() const noexcept { return max_ranks_; }
  /// This rank's host, the number of ranks there, and its position among them.
  [[nodiscard]] int host() const noexcept { return host_; }
  [[nodiscard]] int here() const noexcept { return static_cast<int>(of(host_).size()); }
  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] int rank_here(int index) const {
    return of(host_)[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int rank_at(int host, int index) const {
    return of(host)[static_cast<std::size_t>(index)];
  }
  /// The rank at the same position on the next or previous host, cyclically. Requires that all
  /// hosts have that position.
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
  std::vector<int> host_of_;
  int min_ranks_ = 0;
  int max_ranks_ = 0;
  int host_ = 0;
  int index_ = 0;
};

}  // namespace tutti::algorithm
