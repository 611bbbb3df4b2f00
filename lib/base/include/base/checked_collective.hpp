#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/call_signature.hpp"
#include "base/shape.hpp"
#include "tutti/collective.hpp"

namespace tutti {

/// A collective call whose arguments fit the operation and this rank: what all layers below the
/// public calls know of it.
struct CheckedCollective {
  Operation operation = Operation::none;
  Type type = Type::u8;
  Operator op = Operator::sum;
  double factor = 1;  ///< of this rank's contribution to a premultiplied sum
  int root = -1;
  /// Elements of the whole buffer, or of one block where a buffer has a block a rank. v-forms: of
  /// the own block.
  std::size_t count = 0;
  /// In an in-place call `send` and `recv` are equal, or the smaller is the own block within the
  /// larger. A buffer that this rank does not have is null.
  const void* send = nullptr;
  void* recv = nullptr;
  bool in_place = false;
  std::span<const std::size_t> counts = {};
  std::span<const std::size_t> recv_counts = {};
  /// Empty: the blocks are in rank order, without gaps.
  std::span<const std::size_t> displacements = {};
  std::span<const std::size_t> recv_displacements = {};
};

/// Adds the counts of a v-form that all ranks must agree on, if all ranks know all counts; else
/// none.
void add_counts(CallSignature& signature, const CheckedCollective& call, const Shape& shape);

/// What all ranks of the call must agree on.
[[nodiscard]] inline CallSignature signature_of(const CheckedCollective& call,
                                                std::uint8_t algorithm) {
  CallSignature signature{.operation = call.operation,
                          .type = call.type,
                          .op = call.op,
                          .root = call.root,
                          .count = call.count,
                          .algorithm = algorithm};
  const auto& shape = shape_of(call.operation);
  if (shape.counts_differ) add_counts(signature, call, shape);
  return signature;
}

/// A send_recv counts as its send.
[[nodiscard]] CallSignature signature_of(const Message& message);

}  // namespace tutti
