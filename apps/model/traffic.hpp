#pragma once

#include <cstdint>
#include <vector>

#include "algorithm/schedule.hpp"
#include "model/machine.hpp"

namespace tutti::model {

/// The traffic of all ranks' schedules, counted without a clock.
struct Traffic {
  std::int64_t steps = 0;             ///< of all ranks
  std::int64_t messages = 0;          ///< of all ranks
  std::int64_t max_messages = 0;      ///< maximum over ranks, sent
  std::int64_t scratch_elements = 0;  ///< maximum over ranks
  int sockets = 0;                    ///< data connections of one rank; maximum over ranks
  int remote_sockets = 0;             ///< the same, only those to other hosts
  std::vector<std::int64_t> out;      ///< elements that leave each host
  std::vector<std::int64_t> in;       ///< elements that enter each host
  std::int64_t between_hosts = 0;     ///< elements, sum over all hosts
  std::int64_t within_hosts = 0;
  /// Every host has the same number of ranks, and relative to their host they do the same as those
  /// of the first host.
  bool hosts_are_equivalent = false;
  /// Only some hosts were counted, and the sums are extrapolated from them.
  bool sampled = false;
};

/// Counts one rank at a time, so one schedule at a time is in memory.
class TrafficCounter {
 public:
  explicit TrafficCounter(const Machine& machine);
  void add(int rank, const algorithm::Schedule& schedule);
  /// Traffic of all ranks. If only some were added, sums are extrapolated.
  [[nodiscard]] Traffic result() const;

 private:
  struct ScheduleHash {
    std::uint64_t hash = 0;
    bool any = false;
  };
  [[nodiscard]] std::uint64_t relative(int rank, int peer) const;
  void count_sockets(int rank, const algorithm::Schedule& schedule);

  const Machine& machine_;
  int hosts_;
  std::vector<int> local_;  ///< local rank of each rank
  Traffic traffic_;
  std::vector<ScheduleHash> schedule_hashes_;  ///< hash of the first schedule, by local rank
  std::vector<std::uint8_t> directions_seen_;
  std::size_t added_ = 0;
};

/// The local rank of each rank.
[[nodiscard]] std::vector<int> local_ranks(const std::vector<int>& host);

}  // namespace tutti::model
