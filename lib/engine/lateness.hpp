#pragma once

#include <chrono>
#include <vector>

#include "control/plane.hpp"
#include "engine/execution.hpp"

namespace tutti::engine {

/// Asks all ranks what they are doing, and says for whom a call waited in vain: ranks that do not
/// answer or are behind; only if there are none, those whose data did not come (`awaited`).
[[nodiscard]] control::Finding find_late(control::Plane& plane, const CallSignature& call,
                                         std::chrono::nanoseconds timeout,
                                         const std::vector<Awaited>& awaited);

}  // namespace tutti::engine
