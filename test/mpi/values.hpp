#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tutti/types.hpp"

/// Test data whose reduction is exact in any order, as bytes of the call's type.
namespace tutti::test {

/// What memory holds that nobody has written to.
inline constexpr std::byte poison{0xA5};

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

[[nodiscard]] constexpr bool is_16_bit(Type type) {
  return type == Type::f16 || type == Type::bf16;
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
[[nodiscard]] std::uint64_t mix(std::uint64_t value);
/// Of an f16 or bf16.
[[nodiscard]] double value_of(Type type, const std::byte* at);
/// Of a rank in a premultiplied sum; products with it are exact.
[[nodiscard]] double factor_of(int rank);
/// Multiplies f32 or f64.
void multiply(std::span<std::byte> bytes, Type part, double factor);
/// Compares two complex numbers, whose parts are of type `part`, by value: the sign of a zero part
/// of a complex product depends on the order of the factors.
[[nodiscard]] bool same_parts(Type part, const std::byte* a, const std::byte* b);
/// An element made of `bits`. `reduces`: it is a contribution to a reduction by `op`.
void store_value(std::byte* to, Type type, std::uint64_t bits, Operator op, bool reduces);

}  // namespace tutti::test
