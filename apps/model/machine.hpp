#pragma once

#include <vector>

#include "algorithm/cost_model.hpp"

/// Predicts the time of a call on a machine that is described by a few numbers: a discrete-event
/// simulation of the schedules of all ranks. Pure: no I/O, no clock.
namespace tutti::model {

/// Placement of the ranks, and costs.
struct Machine {
  std::vector<int> host;  ///< per rank, numbered from 0 without gaps
  algorithm::CostModel costs;
  int cores_per_host = 0;  ///< its ranks share them round-robin; 0: one core per rank
  int numa_nodes = 1;      ///< per host; its ranks are assigned to them in consecutive blocks
  /// For links that a token bucket shapes, as in virtual machines and containers: the bucket's size
  /// in bytes. Data passes without delay while the bucket has tokens. The prediction is then for a
  /// call that follows another one immediately.
  double link_burst_bytes = 0;
  /// Copy rate for data from another NUMA node, as a fraction of the local rate.
  double far_memory_share = 0.6;
};

enum class MapBy { slot, node };

/// The host of each rank, for `ranks_of_host[h]` ranks on host h. `slot` fills one host after
/// another; `node` assigns ranks round-robin to the hosts with free slots.
[[nodiscard]] std::vector<int> place(const std::vector<int>& ranks_of_host, MapBy map_by);
/// Distributes ranks evenly; the first hosts have one more if they don't divide.
[[nodiscard]] std::vector<int> distribute_evenly(int ranks, int hosts);

}  // namespace tutti::model
