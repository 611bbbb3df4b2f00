#include "values.hpp"

#include <array>
#include <cmath>

#include "base/shape.hpp"

namespace tutti::test {
namespace {

/// Values whose sums and products are exact in any order, so MPI's order does not matter: small
/// integers, or powers of two for a product.
double exact_value(std::uint64_t bits, Type type, Operator op) {
  if (op == Operator::product)
    return std::ldexp((bits & 8U) != 0 ? -1 : 1, static_cast<int>(bits % 3) - 1);
  // For 16-bit floats up to the largest exact integer, so that sums are rounded.
  const std::int64_t most = type == Type::f16 ? 2047 : 127;
  return static_cast<double>(static_cast<std::int64_t>(bits % (2 * most + 1)) - most);
}

std::uint16_t half_of(double value) {
  // Integers up to 2048 and small powers of two are exact.
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  const auto mantissa = static_cast<unsigned>(std::lround((fraction * 2 - 1) * 1024));
  return static_cast<std::uint16_t>((value < 0 ? 0x8000U : 0U) |
                                    static_cast<unsigned>(exponent - 1 + 15) << 10 | mantissa);
}
double value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}
double value_of_bfloat(std::uint16_t bits) {
  const auto wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}
std::uint16_t bfloat_of(double value) {
  // Values with up to 8 significant bits are exact.
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

/// Values whose reduction over 8 ranks fits into 8 bits.
std::uint64_t small_bits(std::uint64_t bits, Type type, Operator op) {
  const bool is_signed = type == Type::i8 || type == Type::i16;
  if (op == Operator::product) {
    return is_signed ? ((bits & 1U) != 0 ? ~std::uint64_t{0} : 1U) : bits & 1U;
  }
  if (op != Operator::sum) return bits;
  return is_signed ? bits % 31 - 15 : bits % 31;
}

}  // namespace

std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

double value_of(Type type, const std::byte* at) {
  const auto bits = load<std::uint16_t>(at);
  return type == Type::f16 ? value_of_half(bits) : value_of_bfloat(bits);
}

double factor_of(int rank) {
  constexpr std::array factors{1.0, -0.5, 2.0};
  return factors[static_cast<std::size_t>(rank) % factors.size()];
}

void multiply(std::span<std::byte> bytes, Type part, double factor) {
  for (std::size_t at = 0; at < bytes.size(); at += size_of(part)) {
    auto* const to = bytes.data() + at;
    if (part == Type::f32) {
      store(to, load<float>(to) * static_cast<float>(factor));
    } else {
      store(to, load<double>(to) * factor);
    }
  }
}

bool same_parts(Type part, const std::byte* a, const std::byte* b) {
  const auto bytes = size_of(part);
  if (part == Type::f32) {
    return load<float>(a) == load<float>(b) && load<float>(a + bytes) == load<float>(b + bytes);
  }
  return load<double>(a) == load<double>(b) && load<double>(a + bytes) == load<double>(b + bytes);
}

void store_value(std::byte* to, Type type, std::uint64_t bits, Operator op, bool reduces) {
  switch (type) {
    case Type::f32:
      return store(to, static_cast<float>(exact_value(bits, type, op)));
    case Type::f64:
      return store(to, exact_value(bits, type, op));
    case Type::f16:
      return store(to, half_of(exact_value(bits, type, op)));
    case Type::bf16:
      return store(to, bfloat_of(exact_value(bits, type, op)));
    case Type::c64:
    case Type::c128: {
      const auto part = part_of(type);
      const auto real = bits & 0xFFFFFFFFU;
      store_value(to, part, real, op, reduces);
      return store_value(to + size_of(part), part, bits >> 32, op, reduces);
    }
    case Type::boolean:
      return store(to, (bits & 1U) != 0);
    default:
      break;
  }
  // Both truth values.
  const bool is_logical = op >= Operator::logical_and && op <= Operator::logical_xor;
  if (reduces && is_logical && (bits & 1U) != 0) bits = 0;
  // A wrapped sum does not depend on the order, but its average is meaningless.
  if (reduces && op == Operator::average) bits %= 16;
  // Open MPI's vector code saturates sums of 8 and 16 bits; tutti and Open MPI's scalar code wrap
  // around. Overflows are not compared.
  if (reduces && size_of(type) <= 2) bits = small_bits(bits, type, op);
  std::memcpy(to, &bits, size_of(type));
}

}  // namespace tutti::test
