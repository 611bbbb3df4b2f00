#pragma once

#include <vector>

#include "algorithm/schedule.hpp"

namespace tutti::model {

/// The ranks that a simulation executes, called actors. If all hosts behave the same, the actors
/// are the ranks of one host: what they send to other hosts arrives back at them at the same time.
/// `actor_of` is then the local rank.
struct Actors {
  std::vector<algorithm::Schedule> schedules;  ///< per actor
  std::vector<int> rank;                       ///< rank of each actor
  std::vector<int> actor_of;                   ///< actor of each rank
  bool one_host_for_all = false;
};

}  // namespace tutti::model
