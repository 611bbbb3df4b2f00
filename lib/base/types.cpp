#include "tutti/types.hpp"

#include <array>

#include "tutti/error.hpp"

namespace tutti {
namespace {

/// A bit for each operator.
template <class... Operators>
constexpr unsigned set_of(Operators... operators) {
  return ((1U << static_cast<unsigned>(operators)) | ...);
}
constexpr unsigned nothing = 0;
constexpr auto logic =
    set_of(sum, product, min, max, bit_and, bit_or, bit_xor, logical_and, logical_or, logical_xor);
constexpr auto integers = logic | set_of(average);
constexpr auto complex = set_of(sum, product, average, Operator::premultiplied_sum);
constexpr auto floats = complex | set_of(min, max);

struct TypeFacts {
  std::string_view name;
  std::size_t size;
  unsigned operators;  ///< in host memory
};
constexpr std::array<TypeFacts, type_count> types{{{"i8", 1, integers},
                                                   {"u8", 1, integers},
                                                   {"i32", 4, integers},
                                                   {"u32", 4, integers},
                                                   {"i64", 8, integers},
                                                   {"u64", 8, integers},
                                                   {"f16", 2, floats},
                                                   {"bf16", 2, floats},
                                                   {"f32", 4, floats},
                                                   {"f64", 8, floats},
                                                   {"f8e4m3", 1, nothing},
                                                   {"f8e5m2", 1, nothing},
                                                   {"i16", 2, integers},
                                                   {"u16", 2, integers},
                                                   {"bool", 1, logic},
                                                   {"c64", 8, complex},
                                                   {"c128", 16, complex}}};
constexpr std::array<std::string_view, operator_count> operators{
    "sum",    "product", "min",         "max",        "average",     "bit_and",
    "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor", "premultiplied_sum"};

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
  const auto index = static_cast<std::size_t>(type);
  return index < types.size() && op < Operator{operator_count} &&
         (types[index].operators >> static_cast<unsigned>(op) & 1U) != 0;
}

const char* name(ErrorCode code) noexcept {
  constexpr std::array<const char*, 6> names{"timeout", "peer_lost", "mismatch",
                                             "aborted", "usage",     "system"};
  const auto index = static_cast<std::size_t>(code);
  return index < names.size() ? names[index] : "unknown";
}

}  // namespace tutti
