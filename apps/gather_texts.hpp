#pragma once

#include <string>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::app {

/// What each rank has to say, on rank 0 in the order of ranks; empty elsewhere. Collective. No rank
/// has more links for it than the logarithm of the ranks, both ways.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& communicator,
                                                    const std::string& mine);

}  // namespace tutti::app
