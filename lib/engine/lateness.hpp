#pragma once

#include <chrono>
#include <vector>

#include "control/plane.hpp"
#include "engine/execution.hpp"

namespace tutti::engine {

/// A call that was not done at its deadline.
struct LateCall {
  const control::Group* group = nullptr;
  CallSignature call;
  std::uint64_t sequence = 0;  ///< of the communicator's latest collective call when it began
  std::chrono::nanoseconds timeout{};
};

/// Asks all ranks what they are doing, and says for whom a call waited in vain: ranks that do not
/// answer or are behind; only if there are none, those whose data did not come (`awaited`).
[[nodiscard]] control::Finding find_late(control::Plane& plane, const LateCall& late,
                                         const std::vector<Awaited>& awaited);

}  // namespace tutti::engine
