#pragma once

#include <string>
#include <vector>

#include "support/fork_ranks.hpp"

/// What the ranks of a fault test do while something happens to them.
namespace tutti::test {

/// One all_reduce of `data.size()` elements whose every result is checked.
void reduce_and_check(Rank& rank, Communicator& communicator, std::vector<float>& data,
                      const CallOptions& options = {});

/// Until an error comes; marks each one that is done.
[[noreturn]] void reduce_forever(Rank& rank, std::size_t count, const Options& options = {});

/// Until the parent ends the loop, in the same round on all ranks. Returns how
/// many it was.
int reduce_until_told(Rank& rank, Communicator& communicator, std::size_t count);

[[nodiscard]] std::string list(const std::vector<int>& ranks);

}  // namespace tutti::test
