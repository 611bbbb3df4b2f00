#pragma once

#include "support/fork_ranks.hpp"

/// Calls that ranks of a soak make.
namespace tutti::soak {

/// One round of collectives and messages, small and large. Checks every result; throws
/// std::runtime_error on wrong data.
void mixed_round(Communicator& communicator, int round);

/// One all_reduce; the size depends on `round`. Checks every element of the result.
void reduce_round(Communicator& communicator, int round);

}  // namespace tutti::soak
