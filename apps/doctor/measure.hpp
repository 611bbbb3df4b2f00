#pragma once

#include "doctor/report.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app::doctor {

/// Measures latency and bandwidth between the lowest ranks of all hosts, in disjoint pairs. Returns
/// the whole matrix on rank 0. Collective.
[[nodiscard]] Matrix measure(Communicator& communicator, const JobFacts& job);

}  // namespace tutti::app::doctor
