#pragma once

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// Adds one round, a loop with `outer_count` 1, behind the loops of the schedule. Where its steps
/// follow those of the round before by constant strides, both become one loop, and so on. An
/// algorithm can so be written round by round, and its schedule stays short: a walk round all ranks
/// with blocks of equal length becomes a few loops.
void append_round(Schedule& schedule, Loop round);

}  // namespace tutti::algorithm
