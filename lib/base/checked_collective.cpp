#include "base/checked_collective.hpp"

#include <algorithm>

namespace tutti {

void add_counts(CallSignature& signature, const CheckedCollective& call, const Shape& shape) {
  signature.count = 0;
  if (shape.rooted || call.operation == Operation::all_to_all_v) return;
  std::uint64_t mixed = 0;
  for (const auto count : call.counts) {
    signature.count += count;
    mixed = fingerprint(mixed, {.count = count});
  }
  signature.root = static_cast<std::int32_t>(mixed >> 33);
}

CallSignature signature_of(const Message& message) {
  const bool sends = message.operation != Operation::recv;
  return {.operation = message.operation,
          .type = message.type,
          .root = sends ? message.to : std::max(message.from, -1),
          .count = sends ? message.send_count : message.recv_count};
}

}  // namespace tutti
