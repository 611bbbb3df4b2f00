#pragma once

namespace tutti::preload_test {

/// Prints the time of a call by operation and size, launched plainly and in a CUDA graph, as lines
/// "time OPERATION BYTES plain|graph MICROSECONDS": the median of several batches, of the slowest
/// rank. Returns false if a rank fails.
[[nodiscard]] bool print_times(int ranks);

}  // namespace tutti::preload_test
