#pragma once

#include <vector>

#include "algorithm/patterns.hpp"
#include "algorithm/schedule.hpp"
#include "host_groups.hpp"

namespace tutti::algorithm {

/// One rank of each host, its leader, which exchanges data with the leaders of other hosts: the
/// first rank of the host, or `root` on the root's host.
class Leaders {
 public:
  explicit Leaders(const ScheduleArguments& arguments, int root = -1);

  [[nodiscard]] const HostGroups& groups() const noexcept { return groups_; }
  [[nodiscard]] int of_host(int host) const { return leaders_[static_cast<std::size_t>(host)]; }
  [[nodiscard]] int here() const { return of_host(groups_.host()); }
  [[nodiscard]] bool leads() const noexcept { return here() == rank_; }
  /// The other ranks of this host.
  [[nodiscard]] const std::vector<int>& neighbours() const noexcept { return neighbours_; }

  /// Appends steps after which the leader has the sum of its host's contributions to `piece` in
  /// `sum`; none if it is alone there. `mine` is the buffer of a rank's contribution. For use in a
  /// loop whose index moves the piece.
  void append_reduce_steps(std::vector<StepPattern>& steps, const Piece& piece, Buffer mine,
                           Buffer sum) const;
  /// The same as a loop over all elements, with the sum in output.
  void append_reduce(Schedule& schedule, const ScheduleArguments& arguments, Buffer mine) const;
  /// Appends steps after which all ranks of the host have the leader's elements of `piece` in
  /// output. For use in a loop whose index moves the piece.
  void append_broadcast_steps(std::vector<StepPattern>& steps, const Piece& piece) const;
  /// The same as a loop over all elements.
  void append_broadcast(Schedule& schedule, const ScheduleArguments& arguments) const;

  /// Arguments of an algorithm that runs between the leaders; its ranks are hosts.
  [[nodiscard]] ScheduleArguments between(const ScheduleArguments& arguments) const;
  /// Appends the loops of such an algorithm, with leaders as peers, and enlarges the scratch
  /// memory.
  void append_between(Schedule& schedule, const Schedule& of_hosts) const;

 private:
  HostGroups groups_;
  int rank_;
  std::vector<int> leaders_;
  std::vector<int> neighbours_;
};

}  // namespace tutti::algorithm
