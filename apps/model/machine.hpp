#pragma once

#include <vector>

#include "algorithm/cost_model.hpp"

/// Predicts what a call would take on a machine that need not be here: the schedules of all ranks,
/// run by a discrete-event simulator. Pure: no I/O, no clock.
namespace tutti::model {

/// Who runs where, and what it costs.
struct Machine {
  std::vector<int> host;  ///< of each rank, from 0 without gaps
  algorithm::CostModel costs;
  int cores_per_host = 0;  ///< ranks share them in turn; 0: a core for each rank
  int numa_nodes = 1;      ///< of each host; its ranks are dealt out to them in equal runs
  /// Of links that a token bucket shapes, as those of virtual machines and containers often are:
  /// bytes that a link which has rested passes at once, before its rate holds. A call is then
  /// looked at as one of many, right after another one.
  double link_burst_bytes = 0;
  /// Data from a rank of another NUMA node is copied at this share of the copy rate.
  double far_memory_share = 0.6;
};

enum class MapBy { slot, node };

/// The host of each rank for `ranks_of_host[h]` ranks on host h: `slot` fills one host after the
/// other, `node` deals ranks out in turn to the hosts that still have room.
[[nodiscard]] std::vector<int> place(const std::vector<int>& ranks_of_host, MapBy map_by);
/// As even as can be: the first hosts have one more.
[[nodiscard]] std::vector<int> even_shares(int ranks, int hosts);

}  // namespace tutti::model
