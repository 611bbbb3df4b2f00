#pragma once

#include "../call_spec.hpp"

namespace tutti::app::bench {

/// Rates as NVIDIA's nccl-tests define them (its doc/PERFORMANCE.md): the algorithm's counts the
/// operation's data, the bus's what the busiest link must carry, which can be held against the
/// hardware. GB/s are 10^9 bytes a second.
struct Bandwidth {
  double algorithm_gbs = 0;
  double bus_gbs = 0;
};
[[nodiscard]] Bandwidth bandwidth_of(const CallSpec& spec, double seconds);

/// What nccl-tests call the size: the larger of a rank's two buffers, in bytes.
[[nodiscard]] std::size_t nccl_tests_bytes(const CallSpec& spec);
/// What OSU's benchmarks call it: of all-to-all the message to one peer, of reduce-scatter the
/// whole input, else as bytes_of().
[[nodiscard]] std::size_t osu_bytes(const CallSpec& spec);

}  // namespace tutti::app::bench
