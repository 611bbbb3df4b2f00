#pragma once

#include "device/library.hpp"

namespace tutti::device::test {

/// Tables of a driver with one device and of an NCCL whose calls return immediately without effect.
[[nodiscard]] Library<CudaCalls> instant_cuda();
[[nodiscard]] Library<NcclCalls> instant_nccl();

}  // namespace tutti::device::test
