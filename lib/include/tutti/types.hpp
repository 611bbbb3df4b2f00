#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

/// Element types. The values travel between ranks: never renumber.
enum class Type : std::uint8_t { i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64 };

/// How two contributions become one. The values travel between ranks: never renumber.
enum class Operator : std::uint8_t { sum, product, min, max, average };

inline constexpr Operator sum = Operator::sum;
inline constexpr Operator product = Operator::product;
inline constexpr Operator min = Operator::min;
inline constexpr Operator max = Operator::max;
inline constexpr Operator average = Operator::average;

/// IEEE 754 binary16, as bits. Moved by every operation; not reduced yet.
struct half {
  std::uint16_t bits;
};
/// The upper half of an IEEE 754 binary32, as bits. Moved by every operation; not reduced yet.
struct bfloat16 {
  std::uint16_t bits;
};

[[nodiscard]] std::size_t size_of(Type type) noexcept;
[[nodiscard]] std::string_view name(Type type) noexcept;
[[nodiscard]] std::string_view name(Operator op) noexcept;
/// The type or operator that `text` names ("f32", "sum"), if there is one.
[[nodiscard]] std::optional<Type> parse_type(std::string_view text) noexcept;
[[nodiscard]] std::optional<Operator> parse_operator(std::string_view text) noexcept;

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

/// What a span may hold.
template <class T>
concept Element = requires {
  TypeOf<T>::value;
};
/// What all_reduce can combine on the host path.
template <class T>
concept Reducible = Element<T> && !std::same_as<T, half> && !std::same_as<T, bfloat16> &&
                    !std::same_as<T, std::byte>;

}  // namespace tutti
