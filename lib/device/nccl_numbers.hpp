#pragma once

#include <optional>
#include <string>

#include "device/calls.hpp"
#include "tutti/types.hpp"

namespace tutti::device {

/// NCCL's number of an element type or operator (nccl.h, ncclDataType_t and ncclRedOp_t).
[[nodiscard]] int nccl_type(Type type);
[[nodiscard]] int nccl_operator(Operator op);

/// "2.28.3"
[[nodiscard]] std::string nccl_version_text(int version);

/// A sentence's part on any result code, known or not: "NCCL: internal error (3); last: …".
[[nodiscard]] std::string nccl_error_text(const NcclCalls& nccl, NcclComm comm, NcclResult result);

}  // namespace tutti::device
