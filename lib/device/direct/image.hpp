#pragma once

#include <optional>
#include <string>
#include <vector>

#include "call.hpp"
#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace tutti::device::direct {

/// The kernels, compiled for several GPUs (a fat binary); null if tutti was built without nvcc.
[[nodiscard]] const void* kernel_image() noexcept;

/// Whether the image has a kernel that serves the call.
[[nodiscard]] bool has_kernel(Protocol protocol, Operation operation, Type type,
                              Operator op) noexcept;
/// The names of all kernels in the image.
[[nodiscard]] std::vector<std::string> kernel_names();
/// The kernel that serves the call; empty if there is none.
[[nodiscard]] std::optional<std::string> kernel_name(Protocol protocol, Operation operation,
                                                     Type type, Operator op);

}  // namespace tutti::device::direct
