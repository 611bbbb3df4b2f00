#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/checked_collective.hpp"
#include "engine/task.hpp"

/// What the host path does besides the sum, in averages over `ranks` ranks and premultiplied sums.
namespace tutti {

/// Empty if nothing is divided after the sum.
[[nodiscard]] std::optional<engine::Task::Division> division_of(const CheckedCollective& call,
                                                                int ranks);
/// Empty if the schedule adds the contributions as they are. `output` is the schedule's output
/// buffer, which contains the call's own if that is in place.
[[nodiscard]] std::optional<engine::Contribution> contribution_of(const CheckedCollective& call,
                                                                  const std::byte* output,
                                                                  int ranks);

/// A premultiplied sum as a plain sum: multiplies this rank's contribution by its factor. The
/// product is in the receive buffer if that has the same length, otherwise in `memory`, which must
/// outlive the call.
[[nodiscard]] CheckedCollective premultiplied(const CheckedCollective& call, int ranks,
                                              std::vector<std::byte>& memory);

}  // namespace tutti
