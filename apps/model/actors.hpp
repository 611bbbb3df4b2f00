#pragma once

#include <vector>

#include "algorithm/schedule.hpp"

namespace tutti::model {

/// Those that a simulation runs. Where all hosts do the same, one host stands for all of them: what
/// its ranks send to others comes back to it from its other side at the same time. `actor_of` is
/// then the rank's place among those of its host.
struct Actors {
  std::vector<algorithm::Schedule> schedules;  ///< of each actor
  std::vector<int> rank;                       ///< whom an actor stands for
  std::vector<int> actor_of;                   ///< of each rank of the machine
  bool one_host_for_all = false;
};

}  // namespace tutti::model
