#pragma once

#include "../call_spec.hpp"

namespace tutti::app::bench {

/// Rates as in NVIDIA's nccl-tests (doc/PERFORMANCE.md), in GB/s (10^9 bytes per second). Algorithm
/// bandwidth is the operation's size over its time. Bus bandwidth is the traffic of the busiest
/// link over the time; compare it with the bandwidth of the hardware.
struct Bandwidth {
  double algorithm_gbs = 0;
  double bus_gbs = 0;
};
[[nodiscard]] Bandwidth bandwidth_of(const CallSpec& spec, double seconds);

/// Size in bytes as nccl-tests define it: the larger of a rank's two buffers.
[[nodiscard]] std::size_t nccl_tests_bytes(const CallSpec& spec);
/// Size in bytes as OSU's benchmarks define it: all-to-all: the message to one peer;
/// reduce-scatter: the whole input; others: bytes_of().
[[nodiscard]] std::size_t osu_bytes(const CallSpec& spec);

}  // namespace tutti::app::bench
