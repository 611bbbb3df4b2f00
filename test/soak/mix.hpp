#pragma once

#include "support/fork_ranks.hpp"

/// What the ranks of a soak do while something happens to them.
namespace tutti::soak {

/// One round of a mix of collectives and messages, small and large, every result checked. Throws
/// std::runtime_error on wrong data.
void mixed_round(Communicator& communicator, int round);

/// One all_reduce whose every result is checked; sizes vary with `round`.
void reduce_round(Communicator& communicator, int round);

}  // namespace tutti::soak
