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
  [[nodiscard]] int here() const noexcept { return static_cast<int>(ranks_of(host_).size()); }
  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] int rank_here(int index) const {
    return ranks_of(host_)[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int rank_at(int host, int index) const {
    return ranks_of(host)[static_cast<std::size_t>(index)];
  }
  /// Ranks of a host, ascending.
  [[nodiscard]] const std::vector<int>& ranks_of(int host) const {
    return ranks_[static_cast<std::size_t>(host)];
  }
  /// The rank on `host` that exchanges data with `rank` of another host: the one with its index
  /// there, modulo the number of ranks on `host`. `rank` itself on its own host.
  [[nodiscard]] int counterpart_on(int host, int rank) const {
    const auto index = index_of_[static_cast<std::size_t>(rank)];
    return rank_at(host, index % static_cast<int>(ranks_of(host).size()));
  }
  /// The host `distance` after this rank's, cyclically; negative: before it.
  [[nodiscard]] int host_at(int distance) const {
    return ((host_ + distance) % hosts() + hosts()) % hosts();
  }
  /// In a call between hosts, the ranks of this host exchange data in shared memory.
  [[nodiscard]] bool shares() const noexcept { return shares_; }
  [[nodiscard]] bool shares_with(int rank) const { return shares_ && host_of(rank) == host_; }
  /// The ranks of this host but this one.
  [[nodiscard]] std::vector<int> neighbours() const;
  /// The rank at the same position on the next or previous host, cyclically. Requires that all
  /// hosts have that position.
  [[nodiscard]] int next() const { return rank_at(host_at(1), index_); }
  [[nodiscard]] int previous() const { return rank_at(host_at(-1), index_); }

 private:
  std::vector<std::vector<int>> ranks_;
  std::vector<int> host_of_;
  std::vector<int> index_of_;  // among the ranks of its host
  int min_ranks_ = 0;
  int max_ranks_ = 0;
  int host_ = 0;
  int index_ = 0;
  bool shares_ = false;
};

}  // namespace tutti::algorithm
