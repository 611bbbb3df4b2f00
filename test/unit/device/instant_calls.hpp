#pragma once

#include "device/library.hpp"

namespace tutti::device::test {

/// A driver with one device and an NCCL whose calls return at once and do nothing: tables to start
/// from.
[[nodiscard]] Library<CudaCalls> instant_cuda();
[[nodiscard]] Library<NcclCalls> instant_nccl();

}  // namespace tutti::device::test
