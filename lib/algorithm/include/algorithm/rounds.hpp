#pragma once

#include "algorithm/schedule.hpp"

namespace tutti::algorithm {

/// Appends one round, a loop with `outer_count` 1, to the schedule. If its steps follow those of
/// the previous round by constant strides, both are merged into one loop, and so on. An algorithm
/// can thus be written round by round, and its schedule stays short: a ring of all ranks with
/// blocks of equal length becomes a few loops.
void append_round(Schedule& schedule, Loop round);

}  // namespace tutti::algorithm
