#pragma once

#include <string>

namespace tutti::gpu_test {

/// How long the ranks take from the exchange of peer info to the first all-reduce's end: with
/// tutti, with plain NCCL in blocking mode, and with NCCL in non-blocking mode and then split to a
/// blocking communicator. Prints them; returns what went wrong.
[[nodiscard]] std::string print_setup_times(int ranks);

}  // namespace tutti::gpu_test
