#pragma once

#include <chrono>
#include <map>
#include <set>
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

/// What is known of all ranks at that moment.
struct Answers {
  std::map<int, control::Status> statuses;  ///< of the other ranks that have answered
  std::vector<control::UnacknowledgedData> own_unacknowledged;
  std::set<int> departed;
};

/// For whom a call waited in vain: a circle of ranks that wait for each other; else ranks whose
/// data gets lost between them, though both answer; else ranks that do not answer or are behind;
/// only if there are none, those whose data did not come (`awaited`).
[[nodiscard]] control::FailureReport judge_late(const rendezvous::Peers& peers,
                                                const LateCall& late,
                                                const std::vector<Awaited>& awaited,
                                                const Answers& answers);

/// Asks all ranks, and judges.
[[nodiscard]] control::FailureReport find_late(control::Plane& plane, const LateCall& late,
                                               const std::vector<Awaited>& awaited);

}  // namespace tutti::engine
