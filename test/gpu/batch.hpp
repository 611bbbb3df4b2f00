#pragma once

#include <random>
#include <string>
#include <vector>

#include "cases.hpp"

namespace tutti::gpu_test {

/// Queues all cases on two streams, with random delays from `own`, and compares every element when
/// all are complete. Their buffers lie close together in poisoned memory, `in_windows` from
/// allocate_device(), of which nothing else may change. Empty if correct. Collective.
[[nodiscard]] std::string check_batch(Communicator& communicator, device::DeviceMemory& first,
                                      device::DeviceMemory& second, const std::vector<Case>& cases,
                                      bool in_windows, std::uint64_t seed, std::mt19937_64& own);

}  // namespace tutti::gpu_test
