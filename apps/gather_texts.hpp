#pragma once

#include <string>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::app {

/// Gathers one text per rank. Returns them in the order of ranks on rank 0, nothing elsewhere.
/// Collective. Opens at most log2(ranks) links per rank in each direction.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& communicator,
                                                    const std::string& mine);

}  // namespace tutti::app
