#include "nccl_call.hpp"

#include <fmt/format.h>

#include <array>

namespace tutti::preload {
namespace {

// ncclDataType_t from 0 on.
constexpr std::array types{Type::i8,  Type::u8,  Type::i32, Type::u32,  Type::i64,    Type::u64,
                           Type::f16, Type::f32, Type::f64, Type::bf16, Type::f8e4m3, Type::f8e5m2};
// ncclRedOp_t from 0 on; later ones were made by ncclRedOpCreatePreMulSum.
constexpr std::array operators{Operator::sum, Operator::product, Operator::max, Operator::min,
                               Operator::average};

template <class T, std::size_t n>
std::optional<T> at(const std::array<T, n>& values, int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= n) return std::nullopt;
  return values[static_cast<std::size_t>(index)];
}

std::optional<Operation> operation_of(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce:
      return Operation::all_reduce;
    case CallKind::broadcast:
      return Operation::broadcast;
    case CallKind::all_gather:
      return Operation::all_gather;
    case CallKind::reduce_scatter:
      return Operation::reduce_scatter;
    default:
      return std::nullopt;
  }
}

bool is_float(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64;
}

}  // namespace

const char* name(CallKind kind) {
  constexpr std::array names{"ncclAllReduce", "ncclBroadcast", "ncclAllGather", "ncclReduceScatter",
                             "ncclReduce",    "ncclSend",      "ncclRecv",      "ncclAlltoAll",
                             "ncclGather",    "ncclScatter"};
  static_assert(names.size() == call_kinds);
  return names.at(static_cast<std::size_t>(kind));
}

std::string describe(const NcclCall& call) {
  const auto type = at(types, call.type);
  return fmt::format("{} of {} {}", name(call.kind), call.count,
                     type ? tutti::name(*type) : "elements");
}

const char* text(Obstacle obstacle) {
  constexpr std::array texts{"no direct path",   "no such operation", "nothing to move",
                             "type or operator", "too large",         "in a group"};
  static_assert(texts.size() == obstacles);
  return texts.at(static_cast<std::size_t>(obstacle));
}

std::optional<CheckedCollective> translate(const NcclCall& call, int rank, int size) {
  const auto operation = operation_of(call.kind);
  const auto type = at(types, call.type);
  if (!operation || !type || call.count == 0) return std::nullopt;
  CheckedCollective result{.operation = *operation,
                           .type = *type,
                           .count = call.count,
                           .send = call.send,
                           .recv = call.recv,
                           .in_place = call.send == call.recv};
  const auto own = static_cast<std::size_t>(rank) * call.count * size_of(*type);
  if (shape_of(*operation).reduces) {
    const auto op = at(operators, call.op);
    if (!op) return std::nullopt;
    // NCCL's minimum of a NaN and a number is the number; that of the direct path is NaN.
    if ((*op == Operator::min || *op == Operator::max) && is_float(*type)) return std::nullopt;
    result.op = *op;
  }
  if (*operation == Operation::broadcast) {
    if (call.root < 0 || call.root >= size) return std::nullopt;
    result.root = call.root;
    if (call.root != rank) result.send = nullptr;
  }
  if (*operation == Operation::all_gather) {
    result.in_place = call.send == static_cast<const std::byte*>(call.recv) + own;
  }
  return result;
}

Obstacle why_not_translated(const NcclCall& call) {
  if (!operation_of(call.kind)) return Obstacle::operation;
  return call.count == 0 || call.kind == CallKind::broadcast ? Obstacle::arguments
                                                             : Obstacle::arithmetic;
}

}  // namespace tutti::preload
