#include "image.hpp"

#include <fmt/format.h>

#include "base/shape.hpp"

namespace tutti::device::direct {

namespace {

// As the macros at the end of kernels.cu.
bool is_16_bit_float(Type type) {
  return type == Type::f16 || type == Type::bf16;
}
bool is_float(Type type) {
  return is_16_bit_float(type) || type == Type::f32 || type == Type::f64;
}
bool is_number(Type type) {
  switch (type) {
    case Type::i8:
    case Type::u8:
    case Type::i32:
    case Type::u32:
    case Type::i64:
    case Type::u64:
      return true;
    default:
      return is_float(type);
  }
}
bool is_basic(Operator op) {
  return op == Operator::sum || op == Operator::product || op == Operator::min ||
         op == Operator::max;
}

}  // namespace

bool has_kernel(Protocol protocol, Operation operation, Type type, Operator op) noexcept {
  const bool by_packets = protocol == Protocol::packets;
  if (operation == Operation::barrier) return by_packets;
  if (!shape_of(operation).reduces) return true;
  if (op == Operator::average) return is_16_bit_float(type);
  return by_packets ? is_number(type) && is_basic(op) : is_float(type) && op == Operator::sum;
}

std::optional<std::string> kernel_name(Protocol protocol, Operation operation, Type type,
                                       Operator op) {
  if (!has_kernel(protocol, operation, type, op)) return std::nullopt;
  const auto* const suffix = protocol == Protocol::packets  ? "packets"
                             : protocol == Protocol::chunks ? "chunks"
                                                            : "windows";
  if (operation == Operation::barrier) return fmt::format("tutti_direct_barrier_{}", suffix);
  if (!shape_of(operation).reduces) return fmt::format("tutti_direct_move_{}", suffix);
  return fmt::format("tutti_direct_{}_{}_{}", name(type), name(op), suffix);
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names{"tutti_direct_barrier_packets"};
  for (const auto protocol : {Protocol::packets, Protocol::chunks, Protocol::windows}) {
    names.push_back(*kernel_name(protocol, Operation::broadcast, Type::u8, Operator::sum));
    for (int type = 0; type < type_count; ++type) {
      for (int op = 0; op < operator_count; ++op) {
        const auto kernel = kernel_name(protocol, Operation::all_reduce, static_cast<Type>(type),
                                        static_cast<Operator>(op));
        if (kernel) names.push_back(*kernel);
      }
    }
  }
  return names;
}

}  // namespace tutti::device::direct
