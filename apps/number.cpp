#include "number.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tutti::app {
namespace {

/// A float of at most 16 bits: sizes of its exponent and mantissa.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  ///< the largest exponent encodes infinities and NaN only

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr SmallFloat f16{5, 10, true};
constexpr SmallFloat bf16{8, 7, true};
constexpr SmallFloat f8e4m3{4, 3, false};
constexpr SmallFloat f8e5m2{5, 2, true};

unsigned bits_of(const SmallFloat& format, std::int64_t number) {
  if (number == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(number < 0 ? -number : number);
  const int exponent = static_cast<int>(std::bit_width(magnitude)) - 1;
  const int shift = format.mantissa_bits - exponent;
  const auto significand = shift >= 0 ? magnitude << shift : magnitude >> -shift;
  const auto mantissa = static_cast<unsigned>(significand) & ((1U << format.mantissa_bits) - 1);
  const auto biased = static_cast<unsigned>(exponent + format.bias());
  const unsigned sign = number < 0 ? 1U << (format.exponent_bits + format.mantissa_bits) : 0;
  return sign | biased << format.mantissa_bits | mantissa;
}

double number_of(const SmallFloat& format, unsigned bits) {
  const auto mantissa_mask = (1U << format.mantissa_bits) - 1;
  const auto exponent_mask = (1U << format.exponent_bits) - 1;
  const auto mantissa = bits & mantissa_mask;
  const auto biased = bits >> format.mantissa_bits & exponent_mask;
  const double sign = (bits >> (format.exponent_bits + format.mantissa_bits)) != 0 ? -1.0 : 1.0;
  const bool is_nan = format.has_infinity ? biased == exponent_mask && mantissa != 0
                                          : biased == exponent_mask && mantissa == mantissa_mask;
  if (is_nan) return std::numeric_limits<double>::quiet_NaN();
  if (format.has_infinity && biased == exponent_mask) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const auto leading = biased == 0 ? 0U : 1U << format.mantissa_bits;
  const int exponent = std::max(static_cast<int>(biased), 1) - format.bias();
  return sign * std::ldexp(leading | mantissa, exponent - format.mantissa_bits);
}

const SmallFloat* small_float(Type type) {
  switch (type) {
    case Type::f16:
      return &f16;
    case Type::bf16:
      return &bf16;
    case Type::f8e4m3:
      return &f8e4m3;
    case Type::f8e5m2:
      return &f8e5m2;
    default:
      return nullptr;
  }
}

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// An integer element, zero- or sign-extended.
std::int64_t integer_of(Type type, const std::byte* element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, size_of(type));  // little endian
  return wrapped(type, static_cast<std::int64_t>(bits));
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

bool is_float(Type type) {
  const auto part = part_of(type);
  return small_float(part) != nullptr || part == Type::f32 || part == Type::f64;
}

bool is_signed(Type type) {
  return is_float(type) || type == Type::i8 || type == Type::i16 || type == Type::i32 ||
         type == Type::i64;
}

int precision_of(Type type) {
  if (is_complex(type)) return std::numeric_limits<float>::digits;
  if (const auto* const format = small_float(type)) return format->mantissa_bits + 1;
  if (type == Type::boolean) return 1;
  if (type == Type::f32) return std::numeric_limits<float>::digits;
  if (type == Type::f64) return std::numeric_limits<double>::digits;
  return static_cast<int>(8 * size_of(type));
}

void encode(Type type, std::int64_t number, std::byte* to) {
  if (is_complex(type)) {
    encode(part_of(type), real_part(number), to);
    encode(part_of(type), imaginary_part(number), to + size_of(type) / 2);
  } else if (const auto* const format = small_float(type)) {
    const auto bits = bits_of(*format, number);
    std::memcpy(to, &bits, size_of(type));
  } else if (type == Type::f32) {
    const auto value = static_cast<float>(number);
    std::memcpy(to, &value, sizeof value);
  } else if (type == Type::f64) {
    const auto value = static_cast<double>(number);
    std::memcpy(to, &value, sizeof value);
  } else {
    std::memcpy(to, &number, size_of(type));
  }
}

std::int64_t wrapped(Type type, std::int64_t number) {
  if (type == Type::boolean) return number & 1;
  const auto unused = 64 - 8 * size_of(type);
  const auto shifted = static_cast<std::uint64_t>(number) << unused;
  return is_signed(type) ? static_cast<std::int64_t>(shifted) >> unused
                         : static_cast<std::int64_t>(shifted >> unused);
}

double value_of(Type type, const std::byte* element) {
  type = part_of(type);
  if (const auto* const format = small_float(type)) {
    unsigned bits = 0;
    std::memcpy(&bits, element, size_of(type));
    return number_of(*format, bits);
  }
  if (type == Type::f32) return read<float>(element);
  if (type == Type::f64) return read<double>(element);
  const auto number = integer_of(type, element);
  return is_signed(type) ? static_cast<double>(number)
                         : static_cast<double>(static_cast<std::uint64_t>(number));
}

std::string value_text(Type type, const std::byte* element) {
  if (is_complex(type)) {
    return fmt::format("{:.9g}{:+.9g}i", value_of(type, element),
                       value_of(type, element + size_of(type) / 2));
  }
  if (is_float(type)) return fmt::format("{:.9g}", value_of(type, element));
  const auto number = integer_of(type, element);
  if (is_signed(type)) return fmt::format("{}", number);
  return fmt::format("{}", static_cast<std::uint64_t>(number));
}

}  // namespace tutti::app
