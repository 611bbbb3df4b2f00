#pragma once

#include "doctor/report.hpp"
#include "tutti/communicator.hpp"

namespace tutti::app::doctor {

/// Measures latency and bandwidth between the lowest ranks of all hosts, in disjoint pairs, and
/// between the two lowest ranks of each host. Returns the whole matrix on rank 0; -1 stands for a
/// host with a single rank. Collective.
[[nodiscard]] Matrix measure(Communicator& communicator, const JobFacts& job);

}  // namespace tutti::app::doctor
