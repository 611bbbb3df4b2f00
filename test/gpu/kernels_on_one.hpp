#pragma once

#include <cstdint>
#include <string>

namespace tutti::gpu_test {

/// Random calls by the kernels of the direct path, those of 2 to 4 ranks together on one GPU, each
/// rank on a stream of its own: every protocol, operation, type and operator that there are kernels
/// for, at any offset, in place or not. All memory of all ranks is compared afterwards. Empty if
/// correct. This needs one GPU only; what links between GPUs do is not in it.
[[nodiscard]] std::string check_kernels_on_one_gpu(int calls, int types, std::uint64_t seed);

}  // namespace tutti::gpu_test
