#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "tutti/detail/float16.hpp"
#include "tutti/export.hpp"

namespace tutti {

/// Element types. The values travel between ranks: never renumber.
enum class Type : std::uint8_t {
  i8,       ///< std::int8_t
  u8,       ///< std::uint8_t, std::byte; also the bytes of structs
  i32,      ///< std::int32_t
  u32,      ///< std::uint32_t
  i64,      ///< std::int64_t
  u64,      ///< std::uint64_t
  f16,      ///< tutti::half
  bf16,     ///< tutti::bfloat16
  f32,      ///< float
  f64,      ///< double
  f8e4m3,   ///< tutti::float8_e4m3
  f8e5m2,   ///< tutti::float8_e5m2
  i16,      ///< std::int16_t
  u16,      ///< std::uint16_t
  boolean,  ///< bool: a byte, 0 or 1; its name is "bool"
  c64,      ///< std::complex<float>: real part, imaginary part
  c128,     ///< std::complex<double>
};
/// Number of types.
inline constexpr int type_count = 17;

/// How two contributions are combined. The values travel between ranks: never renumber.
enum class Operator : std::uint8_t {
  sum,                ///< integers wrap around
  product,            ///< integers wrap around
  min,                ///< propagates NaN
  max,                ///< propagates NaN
  average,            ///< the sum divided by the number of ranks; of integers truncated toward zero
  bit_and,            ///< of integers
  bit_or,             ///< of integers
  bit_xor,            ///< of integers
  logical_and,        ///< of integers: 1 if both differ from 0, else 0
  logical_or,         ///< of integers: 1 if one differs from 0, else 0
  logical_xor,        ///< of integers: 1 if exactly one differs from 0, else 0
  premultiplied_sum,  ///< of floats: each rank's contribution is multiplied by its factor first
};
/// Number of operators.
inline constexpr int operator_count = 12;

/// Operator::sum
inline constexpr Operator sum = Operator::sum;
/// Operator::product
inline constexpr Operator product = Operator::product;
/// Operator::min
inline constexpr Operator min = Operator::min;
/// Operator::max
inline constexpr Operator max = Operator::max;
/// Operator::average
inline constexpr Operator average = Operator::average;
/// Operator::bit_and
inline constexpr Operator bit_and = Operator::bit_and;
/// Operator::bit_or
inline constexpr Operator bit_or = Operator::bit_or;
/// Operator::bit_xor
inline constexpr Operator bit_xor = Operator::bit_xor;
/// Operator::logical_and
inline constexpr Operator logical_and = Operator::logical_and;
/// Operator::logical_or
inline constexpr Operator logical_or = Operator::logical_or;
/// Operator::logical_xor
inline constexpr Operator logical_xor = Operator::logical_xor;

/// What a reduction does: an Operator, or premultiplied_sum(factor).
struct Reduction {
  Operator op = Operator::sum;  ///< how two contributions are combined
  double factor = 1;            ///< of this rank; used by Operator::premultiplied_sum only

  /// Implicit, so that a call takes an Operator.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  constexpr Reduction(Operator given, double own_factor = 1) noexcept
      : op(given), factor(own_factor) {}
};

/// The sum of all contributions, each multiplied by the `factor` that its rank passes; ranks may
/// pass different factors.
[[nodiscard]] constexpr Reduction premultiplied_sum(double factor) noexcept {
  return {Operator::premultiplied_sum, factor};
}

// Named as in the field, like the language's own types.
// NOLINTBEGIN(readability-identifier-naming)
/// IEEE 754 binary16.
struct half {
  std::uint16_t bits;  ///< sign, 5 bits of exponent, 10 of mantissa

  /// Uninitialized, as a float.
  half() = default;
  /// Rounds to nearest, ties to even; beyond 65504 to infinity. A NaN stays a NaN. Only from float:
  /// an integer argument, which may be meant as bits, does not compile.
  template <std::same_as<float> F>
  explicit constexpr half(F value) noexcept : bits(detail::half_bits(value)) {}
  /// Exact.
  explicit constexpr operator float() const noexcept { return detail::half_value(bits); }
  /// The half that has these bits.
  [[nodiscard]] static constexpr half from_bits(std::uint16_t bits) noexcept {
    half result{};
    result.bits = bits;
    return result;
  }
};
/// The upper 16 bits of an IEEE 754 binary32.
struct bfloat16 {
  std::uint16_t bits;  ///< sign, 8 bits of exponent, 7 of mantissa

  /// Uninitialized, as a float.
  bfloat16() = default;
  /// Rounds to nearest, ties to even. A NaN stays a NaN. Only from float: an integer argument,
  /// which may be meant as bits, does not compile.
  template <std::same_as<float> F>
  explicit constexpr bfloat16(F value) noexcept : bits(detail::bfloat16_bits(value)) {}
  /// Exact.
  explicit constexpr operator float() const noexcept { return detail::bfloat16_value(bits); }
  /// The bfloat16 that has these bits.
  [[nodiscard]] static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 result{};
    result.bits = bits;
    return result;
  }
};
/// 8-bit float of the OCP specification (2023). The host path moves it and does not reduce it.
struct float8_e4m3 {
  std::uint8_t bits;  ///< sign, 4 bits of exponent, 3 of mantissa
};
/// 8-bit float of the OCP specification (2023). The host path moves it and does not reduce it.
struct float8_e5m2 {
  std::uint8_t bits;  ///< sign, 5 bits of exponent, 2 of mantissa
};
// NOLINTEND(readability-identifier-naming)

/// Bytes of an element.
[[nodiscard]] TUTTI_EXPORT std::size_t size_of(Type type) noexcept;
/// "f32"
[[nodiscard]] TUTTI_EXPORT std::string_view name(Type type) noexcept;
/// "sum"
[[nodiscard]] TUTTI_EXPORT std::string_view name(Operator op) noexcept;
/// The type that `text` names ("f32"), if there is one.
[[nodiscard]] TUTTI_EXPORT std::optional<Type> parse_type(std::string_view text) noexcept;
/// The operator that `text` names ("sum"), if there is one.
[[nodiscard]] TUTTI_EXPORT std::optional<Operator> parse_operator(std::string_view text) noexcept;

/// `TypeOf<T>::value` is the Type of the number T. Other types have no member `value`.
template <class T>
struct TypeOf;
/// @cond
template <std::integral T>
requires(sizeof(T) <= 8) struct TypeOf<T> {
  static constexpr Type value = sizeof(T) == 1   ? (std::signed_integral<T> ? Type::i8 : Type::u8)
                                : sizeof(T) == 2 ? (std::signed_integral<T> ? Type::i16 : Type::u16)
                                : sizeof(T) == 4
                                    ? (std::signed_integral<T> ? Type::i32 : Type::u32)
                                    : (std::signed_integral<T> ? Type::i64 : Type::u64);
};
template <>
struct TypeOf<bool> {
  static constexpr Type value = Type::boolean;
};
template <>
struct TypeOf<std::complex<float>> {
  static constexpr Type value = Type::c64;
};
template <>
struct TypeOf<std::complex<double>> {
  static constexpr Type value = Type::c128;
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
/// @endcond

/// A number with its own Type (not sent as bytes).
template <class T>
concept Element = requires {
  TypeOf<T>::value;
};
/// A type that calls can move: an Element, or another trivially copyable type, which is sent as
/// bytes. No pointers, which are invalid on another rank.
template <class T>
concept Transferable = Element<T> ||
    (std::is_trivially_copyable_v<T>&& std::is_object_v<T> && !std::is_array_v<T> &&
     !std::is_pointer_v<T> && !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T>);
/// A type that reductions accept in host memory.
template <class T>
concept Reducible = Element<T> && !std::same_as<T, float8_e4m3> && !std::same_as<T, float8_e5m2> &&
                    !std::same_as<T, std::byte>;

/// Whether `op` is defined on `type` in host memory. Bitwise and logical operators are for integers
/// and bool, a premultiplied sum for floats and complex numbers, which have neither min nor max;
/// 8-bit floats are only moved. docs/semantics.md has the table.
[[nodiscard]] TUTTI_EXPORT bool reducible(Type type, Operator op) noexcept;

}  // namespace tutti
