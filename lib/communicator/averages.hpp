#pragma once

#include <cstddef>
#include <optional>

#include "base/checked_collective.hpp"
#include "engine/task.hpp"

/// What a schedule's task does besides the sum, if the call averages over `ranks` ranks.
namespace tutti {

/// Empty if nothing is divided after the sum.
[[nodiscard]] std::optional<engine::Task::Division> division_of(const CheckedCollective& call,
                                                                int ranks);
/// Empty if the schedule adds the contributions as they are. `output` is the schedule's output
/// buffer, which contains the call's own if that is in place.
[[nodiscard]] std::optional<engine::Contribution> contribution_of(const CheckedCollective& call,
                                                                  const std::byte* output,
                                                                  int ranks);

}  // namespace tutti
