#pragma once

#include <optional>
#include <string>

#include "device/calls.hpp"
#include "tutti/types.hpp"

namespace tutti::device {

/// NCCL's number of an element type (nccl.h, ncclDataType_t). For types that NCCL lacks: a type of
/// the same size, whose min and max are those of bool; for complex numbers the type of their parts.
[[nodiscard]] int nccl_type(Type type) noexcept;
/// NCCL's number of a type of the same size that every release of NCCL supports: for operations
/// without arithmetic.
[[nodiscard]] int nccl_moved_type(Type type) noexcept;
/// NCCL's number of an operator (ncclRedOp_t) on a type. Empty where NCCL lacks either, and for
/// premultiplied_sum, whose operator a communicator makes.
[[nodiscard]] std::optional<int> nccl_operator(Type type, Operator op) noexcept;
[[nodiscard]] inline bool is_8_bit_float(Type type) noexcept {
  return type == Type::f8e4m3 || type == Type::f8e5m2;
}

/// First version, and compute capability, that reduces 8-bit floats.
inline constexpr int nccl_version_of_8_bit_floats = 22400;
inline constexpr int compute_major_of_8_bit_floats = 9;

/// "2.28.3"
[[nodiscard]] std::string nccl_version_text(int version);

/// Text of any result code, known or not: "NCCL: internal error (3); last: …".
[[nodiscard]] std::string nccl_error_text(const NcclCalls& nccl, NcclComm comm, NcclResult result);

}  // namespace tutti::device
