#include "tutti/types.hpp"

#include <array>

#include "tutti/error.hpp"

namespace tutti {
namespace {

struct TypeFacts {
  std::string_view name;
  std::size_t size;
};
constexpr std::array<TypeFacts, type_count> types{{{"i8", 1},
                                                   {"u8", 1},
                                                   {"i32", 4},
                                                   {"u32", 4},
                                                   {"i64", 8},
                                                   {"u64", 8},
                                                   {"f16", 2},
                                                   {"bf16", 2},
                                                   {"f32", 4},
                                                   {"f64", 8},
                                                   {"f8e4m3", 1},
                                                   {"f8e5m2", 1}}};
constexpr std::array<std::string_view, operator_count> operators{
    "sum", "product", "min", "max", "average", "bit_and", "bit_or", "bit_xor"};

}  // namespace

// Values may come from a peer's message and be out of range.
std::size_t size_of(Type type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < types.size() ? types[index].size : 1;
}

std::string_view name(Type type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < types.size() ? types[index].name : "unknown type";
}

std::string_view name(Operator op) noexcept {
  const auto index = static_cast<std::size_t>(op);
  return index < operators.size() ? operators[index] : "unknown operator";
}

std::optional<Type> parse_type(std::string_view text) noexcept {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].name == text) return static_cast<Type>(i);
  }
  return std::nullopt;
}

std::optional<Operator> parse_operator(std::string_view text) noexcept {
  for (std::size_t i = 0; i < operators.size(); ++i) {
    if (operators[i] == text) return static_cast<Operator>(i);
  }
  return std::nullopt;
}

bool reducible(Type type, Operator op) noexcept {
  switch (type) {
    case Type::f8e4m3:
    case Type::f8e5m2:
      return false;
    case Type::f16:
    case Type::bf16:
    case Type::f32:
    case Type::f64:
      return op < Operator::bit_and;
    default:
      return type < Type{type_count} && op <= Operator::bit_xor;
  }
}

const char* name(ErrorCode code) noexcept {
  constexpr std::array<const char*, 6> names{"timeout", "peer_lost", "mismatch",
                                             "aborted", "usage",     "system"};
  const auto index = static_cast<std::size_t>(code);
  return index < names.size() ? names[index] : "unknown";
}

}  // namespace tutti
