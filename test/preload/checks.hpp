#pragma once

#include "nccl_program.hpp"

/// What nccl_check checks: each function is the body of a rank, and throws if something is wrong.
namespace tutti::preload_test {

std::string calls(Rank& rank);
std::string random_calls(Rank& rank);
std::string order(Rank& rank);
std::string groups(Rank& rank);
std::string split(Rank& rank);
std::string graph(Rank& rank);
std::string branches(Rank& rank);
std::string nonblocking(Rank& rank);

std::string mixed(Rank& rank);
std::string late(Rank& rank);
std::string abort_call(Rank& rank);
std::string leave_after_graph(Rank& rank);
std::string leave(Rank& rank);
/// Rank 1 is killed. Empty if the others return in time, with errors that name it. `in_graph`: the
/// calls are in a graph.
std::string check_killed(int ranks, bool in_graph);

}  // namespace tutti::preload_test
