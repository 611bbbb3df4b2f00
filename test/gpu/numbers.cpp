#include "numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/shape.hpp"

namespace tutti::gpu_test {
namespace {

/// The finalizer of splitmix64.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

std::uint64_t random_bits(const Source& source, int rank, std::size_t index) {
  return mix(mix(source.seed ^ (static_cast<std::uint64_t>(rank) << 48)) ^ index);
}

bool is_integer(Type type) {
  return type <= Type::u64 || type == Type::i16 || type == Type::u16 || type == Type::boolean;
}
bool is_signed(Type type) {
  return type == Type::i8 || type == Type::i32 || type == Type::i64;
}

struct Format {
  int exponent, mantissa, bias;
};

Format format_of(Type type) {
  switch (type) {
    case Type::f16:
      return {5, 10, 15};
    case Type::bf16:
      return {8, 7, 127};
    case Type::f32:
      return {8, 23, 127};
    case Type::f8e4m3:
      return {4, 3, 7};
    case Type::f8e5m2:
      return {5, 2, 15};
    default:
      return {11, 52, 1023};
  }
}

/// Encodes 0 or a normal number that the format represents exactly.
std::uint64_t encode(double value, const Format& format) {
  if (value == 0) return 0;
  int power = 0;
  const double fraction = std::frexp(std::fabs(value), &power);  // in [0.5, 1)
  const auto exponent = static_cast<std::uint64_t>(power - 1 + format.bias);
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(2 * fraction - 1, format.mantissa));
  const std::uint64_t sign = value < 0 ? 1 : 0;
  return (sign << (format.exponent + format.mantissa)) | (exponent << format.mantissa) | mantissa;
}

double decode(std::uint64_t bits, const Format& format) {
  const auto fraction = static_cast<double>(bits & ((std::uint64_t{1} << format.mantissa) - 1));
  const auto power =
      static_cast<int>((bits >> format.mantissa) & ((std::uint64_t{1} << format.exponent) - 1));
  const double sign = ((bits >> (format.exponent + format.mantissa)) & 1) != 0 ? -1 : 1;
  if (power == 0) return sign * std::ldexp(fraction, 1 - format.bias - format.mantissa);
  // All ones encode infinity or NaN, except in e4m3.
  const bool special = power == (1 << format.exponent) - 1 && format.exponent > 4;
  if (special) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  const double whole = std::ldexp(1.0, format.mantissa) + fraction;
  return sign * std::ldexp(whole, power - format.bias - format.mantissa);
}

double float_value(const Source& source, std::uint64_t bits) {
  if (source.op == Operator::product) {
    // Products of powers of two around 1 are exact in any order.
    return std::ldexp((bits & 4) != 0 ? -1.0 : 1.0, static_cast<int>(bits % 3) - 1);
  }
  if (source.type == Type::f32) {
    return std::ldexp(static_cast<double>(bits >> 40), -23) - 1;
  }
  if (source.type == Type::f64) {
    return std::ldexp(static_cast<double>(bits >> 11), -52) - 1;
  }
  return static_cast<double>(static_cast<int>(bits % 17) - 8) / 4;
}

std::uint64_t element_bits(const Source& source, int rank, std::size_t index) {
  const auto bits = random_bits(source, rank, index);
  if (source.type == Type::boolean) return bits & 1;
  if (!is_integer(source.type)) return encode(float_value(source, bits), format_of(source.type));
  // An average of integers is computed as a sum, which must not overflow.
  if (source.op == Operator::average) return bits % (128 / static_cast<unsigned>(source.ranks));
  return bits;
}

std::uint64_t read(Type type, const std::byte* from) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, size_of(type));
  return bits;
}

std::uint64_t extended(Type type, std::uint64_t bits) {
  const auto width = 8 * size_of(type);
  if (width == 64) return bits;
  bits &= (std::uint64_t{1} << width) - 1;
  const bool negative = is_signed(type) && ((bits >> (width - 1)) & 1) != 0;
  return negative ? bits | ~((std::uint64_t{1} << width) - 1) : bits;
}

bool less(Type type, std::uint64_t a, std::uint64_t b) {
  return is_signed(type) ? static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) : a < b;
}

/// Sums of bool are maxima, products minima.
Operator effective_operator(const Source& source) {
  if (source.type != Type::boolean) return source.op;
  const bool all = source.op == Operator::product || source.op == Operator::min ||
                   source.op == Operator::bit_and || source.op == Operator::logical_and;
  return all ? Operator::min : Operator::max;
}

std::string integer_complaint(const Source& source, std::size_t index, const std::byte* found) {
  std::uint64_t due = extended(source.type, element_bits(source, 0, index));
  for (int rank = 1; rank < source.ranks; ++rank) {
    const auto next = extended(source.type, element_bits(source, rank, index));
    switch (effective_operator(source)) {
      case Operator::product:
        due *= next;
        break;
      case Operator::min:
        due = less(source.type, next, due) ? next : due;
        break;
      case Operator::max:
        due = less(source.type, due, next) ? next : due;
        break;
      default:
        due += next;
    }
  }
  if (source.op == Operator::average) due /= static_cast<std::uint64_t>(source.ranks);
  due = extended(source.type, due);
  const auto got = extended(source.type, read(source.type, found));
  if (got == due) return {};
  return fmt::format("{:#x} where {:#x} is due", got, due);
}

std::string float_complaint(const Source& source, std::size_t index, const std::byte* found) {
  const auto format = format_of(source.type);
  const auto value = [&](int rank) -> long double {
    const double factor = source.op == Operator::premultiplied_sum ? factor_of(rank) : 1;
    return factor * decode(element_bits(source, rank, index), format);
  };
  long double due = value(0);
  long double magnitude = std::fabs(due);
  for (int rank = 1; rank < source.ranks; ++rank) {
    const auto next = value(rank);
    magnitude += std::fabs(next);
    switch (source.op) {
      case Operator::product:
        due *= next;
        break;
      case Operator::min:
        due = std::min(due, next);
        break;
      case Operator::max:
        due = std::max(due, next);
        break;
      default:
        due += next;
    }
  }
  // Each addition rounds by at most half a unit of a partial sum, in any order. An average may
  // divide before or after.
  long double allowed = 0;
  if (source.op == Operator::sum || source.op == Operator::average ||
      source.op == Operator::premultiplied_sum) {
    allowed =
        std::ldexp(magnitude * static_cast<long double>(source.ranks + 1), -format.mantissa - 1);
  }
  if (source.op == Operator::average) {
    due /= source.ranks;
    allowed = allowed / source.ranks + std::ldexp(1.0L, 1 - format.bias - format.mantissa);
  }
  const long double got = decode(read(source.type, found), format);
  if (std::fabs(got - due) <= allowed) return {};
  return fmt::format("{:g} where {:g} ± {:g} is due", static_cast<double>(got),
                     static_cast<double>(due), static_cast<double>(allowed));
}

/// A complex number is two elements of its part's type.
Source parts_of(const Source& source) {
  auto parts = source;
  parts.type = part_of(source.type);
  return parts;
}

}  // namespace

void write_element(const Source& source, int rank, std::size_t index, std::byte* to) {
  if (const auto parts = parts_of(source); parts.type != source.type) {
    write_element(parts, rank, 2 * index, to);
    return write_element(parts, rank, 2 * index + 1, to + size_of(parts.type));
  }
  const auto bits = element_bits(source, rank, index);
  std::memcpy(to, &bits, size_of(source.type));
}

std::vector<std::byte> contribution(const Source& source, int rank, std::size_t first,
                                    std::size_t count) {
  const auto size = size_of(source.type);
  std::vector<std::byte> bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    write_element(source, rank, first + i, bytes.data() + i * size);
  }
  return bytes;
}

std::string difference(const Source& source, std::size_t index, const std::byte* found) {
  if (const auto parts = parts_of(source); parts.type != source.type) {
    const auto real = difference(parts, 2 * index, found);
    return real.empty() ? difference(parts, 2 * index + 1, found + size_of(parts.type)) : real;
  }
  return is_integer(source.type) ? integer_complaint(source, index, found)
                                 : float_complaint(source, index, found);
}

}  // namespace tutti::gpu_test
