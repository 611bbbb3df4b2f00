#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/export.hpp"

namespace tutti {

/// Element types. The values travel between ranks: never renumber.
enum class Type : std::uint8_t {
  i8,
  u8,
  i32,
  u32,
  i64,
  u64,
  f16,
  bf16,
  f32,
  f64,
  f8e4m3,
  f8e5m2,
};
inline constexpr int type_count = 12;

/// How two contributions become one. The values travel between ranks: never renumber.
enum class Operator : std::uint8_t {
  sum,
  product,
  min,
  max,
  average,
  bit_and,
  bit_or,
  bit_xor,
};
inline constexpr int operator_count = 8;

inline constexpr Operator sum = Operator::sum;
inline constexpr Operator product = Operator::product;
inline constexpr Operator min = Operator::min;
inline constexpr Operator max = Operator::max;
inline constexpr Operator average = Operator::average;
inline constexpr Operator bit_and = Operator::bit_and;
inline constexpr Operator bit_or = Operator::bit_or;
inline constexpr Operator bit_xor = Operator::bit_xor;

// Named as in the field, like the language's own types.
// NOLINTBEGIN(readability-identifier-naming)
/// IEEE 754 binary16, as bits.
struct half {
  std::uint16_t bits;
};
/// The upper half of an IEEE 754 binary32, as bits.
struct bfloat16 {
  std::uint16_t bits;
};
/// The 8-bit floats of the OCP specification (2023), as bits: 4 bits of exponent and 3 of mantissa,
/// or 5 and 2. The host path moves them and does not reduce them.
struct float8_e4m3 {
  std::uint8_t bits;
};
struct float8_e5m2 {
  std::uint8_t bits;
};
// NOLINTEND(readability-identifier-naming)

[[nodiscard]] TUTTI_EXPORT std::size_t size_of(Type type) noexcept;
[[nodiscard]] TUTTI_EXPORT std::string_view name(Type type) noexcept;
[[nodiscard]] TUTTI_EXPORT std::string_view name(Operator op) noexcept;
/// The type or operator that `text` names ("f32", "sum"), if there is one.
[[nodiscard]] TUTTI_EXPORT std::optional<Type> parse_type(std::string_view text) noexcept;
[[nodiscard]] TUTTI_EXPORT std::optional<Operator> parse_operator(std::string_view text) noexcept;

template <class T>
struct TypeOf;  // no member `value`: T is no element type
template <std::integral T>
requires(!std::same_as<T, bool> &&
         (sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8)) struct TypeOf<T> {
  static constexpr Type value = sizeof(T) == 1 ? (std::signed_integral<T> ? Type::i8 : Type::u8)
                                : sizeof(T) == 4
                                    ? (std::signed_integral<T> ? Type::i32 : Type::u32)
                                    : (std::signed_integral<T> ? Type::i64 : Type::u64);
};
template <>
struct TypeOf<std::byte> {
  static constexpr Type value = Type::u8;
};
template <>
struct TypeOf<float> {
  static constexpr Type value = Type::f32;
};
template <>
struct TypeOf<double> {
  static constexpr Type value = Type::f64;
};
template <>
struct TypeOf<half> {
  static constexpr Type value = Type::f16;
};
template <>
struct TypeOf<bfloat16> {
  static constexpr Type value = Type::bf16;
};
template <>
struct TypeOf<float8_e4m3> {
  static constexpr Type value = Type::f8e4m3;
};
template <>
struct TypeOf<float8_e5m2> {
  static constexpr Type value = Type::f8e5m2;
};

/// What a span may hold.
template <class T>
concept Element = requires {
  TypeOf<T>::value;
};
/// What reductions can combine in host memory.
template <class T>
concept Reducible = Element<T> && !std::same_as<T, float8_e4m3> && !std::same_as<T, float8_e5m2> &&
                    !std::same_as<T, std::byte>;

/// Whether `op` is defined on `type` in host memory. Bitwise operators are for integers; 8-bit
/// floats are only moved.
[[nodiscard]] TUTTI_EXPORT bool reducible(Type type, Operator op) noexcept;

}  // namespace tutti
