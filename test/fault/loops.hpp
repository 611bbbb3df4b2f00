#pragma once

#include <string>
#include <vector>

#include "support/fork_ranks.hpp"

/// Loops that ranks of a fault test run.
namespace tutti::test {

/// One all_reduce of `data.size()` elements. Checks every element of the result.
void reduce_and_check(Rank& rank, Communicator& communicator, std::vector<float>& data,
                      const CallOptions& options = {});

/// Repeats until an error is thrown. Calls mark() after each all_reduce.
[[noreturn]] void reduce_forever(Rank& rank, std::size_t count, const Options& options = {});

/// The same with all_gather, and with messages to the next rank. Both check their data.
[[noreturn]] void gather_forever(Rank& rank, std::size_t count);
[[noreturn]] void send_around_forever(Rank& rank, std::size_t count);

/// Repeats until the parent calls Job::release(); all ranks end in the same round. Returns the
/// number of rounds.
int reduce_until_released(Rank& rank, Communicator& communicator, std::size_t count);

[[nodiscard]] std::string list(const std::vector<int>& ranks);

}  // namespace tutti::test
