#pragma once

#include <cstdint>
#include <vector>

#include "algorithm/schedule.hpp"
#include "model/machine.hpp"

namespace tutti::model {

/// What the schedules of all ranks move, found by walking through them without a clock.
struct Traffic {
  std::int64_t steps = 0;             ///< of all ranks
  std::int64_t messages = 0;          ///< of all ranks
  std::int64_t max_messages = 0;      ///< that one rank sends
  std::int64_t scratch_elements = 0;  ///< of the rank that needs most
  int sockets = 0;      ///< one-way links of the rank that has most, both directions counted
  int far_sockets = 0;  ///< those of them that go to other hosts, of the rank that has most
  std::vector<std::int64_t> out;   ///< elements that leave each host
  std::vector<std::int64_t> in;    ///< elements that come to each host
  std::int64_t between_hosts = 0;  ///< elements, in all
  std::int64_t within_hosts = 0;
  /// Every host has as many ranks, and they do what those of the first host do, seen from there.
  bool hosts_are_alike = false;
  /// Only some hosts were looked at; the others are taken to do as much as these.
  bool sampled = false;
};

/// Adds one rank after the other, so that not all schedules need be there at once.
class TrafficCounter {
 public:
  explicit TrafficCounter(const Machine& machine);
  void add(int rank, const algorithm::Schedule& schedule);
  /// Of all ranks; with fewer, the sums grow to what all would have.
  [[nodiscard]] Traffic result() const;

 private:
  struct Seen {
    std::uint64_t hash = 0;
    bool any = false;
  };
  [[nodiscard]] std::uint64_t relative(int rank, int peer) const;
  void count_sockets(int rank, const algorithm::Schedule& schedule);

  const Machine& machine_;
  int hosts_;
  std::vector<int> local_;  ///< each rank's place among those of its host
  Traffic traffic_;
  std::vector<Seen> alike_;  ///< by local rank
  std::vector<std::uint8_t> met_;
  std::size_t added_ = 0;
};

/// Each rank's place among those of its host, in the order of ranks.
[[nodiscard]] std::vector<int> local_ranks(const std::vector<int>& host);

}  // namespace tutti::model
