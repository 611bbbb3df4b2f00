#include "signature.hpp"

#include <fmt/format.h>

#include "base/shape.hpp"
#include "engine/reduce.hpp"
#include "tutti/error.hpp"

namespace tutti {

CallSignature signature_of(const CheckedCollective& call) {
  CallSignature signature{.operation = call.operation,
                          .type = call.type,
                          .op = call.op,
                          .root = call.root,
                          .count = call.count};
  const auto& shape = shape_of(call.operation);
  if (!shape.counts_differ) return signature;
  signature.count = 0;
  if (shape.rooted || call.operation == Operation::all_to_all_v) return signature;
  std::uint64_t mixed = 0;
  for (const auto count : call.counts) {
    signature.count += count;
    mixed = fingerprint(mixed, {.count = count});
  }
  signature.root = static_cast<std::int32_t>(mixed >> 33);
  return signature;
}

void require_reducible(const CheckedCollective& call) {
  if (!shape_of(call.operation).reduces || reducible(call.type, call.op)) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} of {} by {} is not supported in host memory{}",
                          tutti::name(call.operation), tutti::name(call.type), tutti::name(call.op),
                          call.op >= Operator::bit_and ? ": bitwise operators are for integers"
                                                       : ": convert to a wider type"));
}

}  // namespace tutti
