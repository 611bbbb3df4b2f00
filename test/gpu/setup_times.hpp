#pragma once

#include <string>

namespace tutti::gpu_test {

/// Measures the time from the exchange of peer info to the end of the first all-reduce: with tutti,
/// with NCCL in blocking mode, and with NCCL in non-blocking mode, split to a blocking
/// communicator. Prints the times; returns the errors.
[[nodiscard]] std::string print_setup_times(int ranks);

}  // namespace tutti::gpu_test
