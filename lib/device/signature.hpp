#pragma once

#include "base/call_signature.hpp"
#include "communicator/backend.hpp"

namespace tutti::device {

/// Adds the counts of a v-form that all ranks must agree on, if all ranks know all counts; else
/// none.
void add_counts(CallSignature& signature, const CheckedCollective& call, const Shape& shape);

/// The signature of a call on device memory that all ranks must agree on.
[[nodiscard]] inline CallSignature signature_of(const CheckedCollective& call, const Shape& shape,
                                                std::uint8_t algorithm) {
  CallSignature signature{.operation = call.operation,
                          .type = call.type,
                          .op = call.op,
                          .root = call.root,
                          .count = call.count,
                          .algorithm = algorithm};
  if (shape.counts_differ) add_counts(signature, call, shape);
  return signature;
}
[[nodiscard]] CallSignature signature_of(const Message& message);

}  // namespace tutti::device
