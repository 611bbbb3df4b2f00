#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

/// Reductions of the fake NCCL, with NCCL's numbers for types and operators.
namespace fake_gpu {

inline std::size_t size_of(int type) {
  switch (type) {
    case 2:
    case 3:
    case 7:
      return 4;
    case 4:
    case 5:
    case 8:
      return 8;
    case 6:
    case 9:
      return 2;
    default:
      return 1;
  }
}

/// A small float of `exponent` and `mantissa` bits, below its sign; e4m3 has no infinity.
inline double decode_float(std::uint32_t bits, int exponent, int mantissa, int bias) {
  const auto fraction = bits & ((1U << mantissa) - 1);
  const auto power = static_cast<int>((bits >> mantissa) & ((1U << exponent) - 1));
  const double sign = ((bits >> (exponent + mantissa)) & 1U) != 0 ? -1 : 1;
  if (power == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp((1U << mantissa) | fraction, power - bias - mantissa);
}

/// Rounds to nearest, ties to even, by trying all encodings: for formats of at most 16 bits.
inline std::uint32_t encode_float(double value, int exponent, int mantissa, int bias) {
  const std::uint32_t sign = std::signbit(value) ? 1U << (exponent + mantissa) : 0U;
  const double wanted = std::fabs(value);
  // Encodings without sign are ordered by value.
  std::uint32_t low = 0;
  std::uint32_t high = (1U << (exponent + mantissa)) - 1;
  while (high - low > 1) {
    const auto middle = (low + high) / 2;
    (decode_float(middle, exponent, mantissa, bias) <= wanted ? low : high) = middle;
  }
  const double below = wanted - decode_float(low, exponent, mantissa, bias);
  const double above = decode_float(high, exponent, mantissa, bias) - wanted;
  const bool up = above < below || (above == below && (low & 1U) != 0);
  return sign | (up ? high : low);
}

struct Small {
  int exponent, mantissa, bias;
};

inline Small small_float(int type) {
  switch (type) {
    case 6:
      return {5, 10, 15};
    case 9:
      return {8, 7, 127};
    case 10:
      return {4, 3, 7};
    default:
      return {5, 2, 15};
  }
}

template <class T>
T combine(T a, T b, int op) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (op == 0 || op == 4) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    if (op == 1)
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    if (op == 0 || op == 4) return a + b;
    if (op == 1) return a * b;
  }
  return op == 2 ? std::max(a, b) : std::min(a, b);
}

template <class T>
void reduce_as(std::byte* to, const std::vector<const std::byte*>& parts, std::size_t count,
               int op) {
  for (std::size_t i = 0; i < count; ++i) {
    T result{};
    for (std::size_t part = 0; part < parts.size(); ++part) {
      T value{};
      std::memcpy(&value, parts[part] + i * sizeof(T), sizeof(T));
      result = part == 0 ? value : combine(result, value, op);
    }
    if (op == 4) result = static_cast<T>(result / static_cast<T>(parts.size()));
    std::memcpy(to + i * sizeof(T), &result, sizeof(T));
  }
}

inline void reduce_small(std::byte* to, const std::vector<const std::byte*>& parts,
                         std::size_t count, int type, int op) {
  const auto [exponent, mantissa, bias] = small_float(type);
  const auto size = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    double result = 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, parts[part] + i * size, size);
      const double value = decode_float(bits, exponent, mantissa, bias);
      result = part == 0 ? value : combine(result, value, op);
    }
    if (op == 4) result /= static_cast<double>(parts.size());
    const auto bits = encode_float(result, exponent, mantissa, bias);
    std::memcpy(to + i * size, &bits, size);
  }
}

inline void reduce(std::byte* to, const std::vector<const std::byte*>& parts, std::size_t count,
                   int type, int op) {
  switch (type) {
    case 0:
      return reduce_as<std::int8_t>(to, parts, count, op);
    case 1:
      return reduce_as<std::uint8_t>(to, parts, count, op);
    case 2:
      return reduce_as<std::int32_t>(to, parts, count, op);
    case 3:
      return reduce_as<std::uint32_t>(to, parts, count, op);
    case 4:
      return reduce_as<std::int64_t>(to, parts, count, op);
    case 5:
      return reduce_as<std::uint64_t>(to, parts, count, op);
    case 7:
      return reduce_as<float>(to, parts, count, op);
    case 8:
      return reduce_as<double>(to, parts, count, op);
    default:
      return reduce_small(to, parts, count, type, op);
  }
}

/// An element of a float type.
inline double number_at(const std::byte* from, int type) {
  float single = 0;
  double number = 0;
  if (type == 7) {
    std::memcpy(&single, from, sizeof single);
    return single;
  }
  if (type == 8) {
    std::memcpy(&number, from, sizeof number);
    return number;
  }
  const auto [exponent, mantissa, bias] = small_float(type);
  std::uint32_t bits = 0;
  std::memcpy(&bits, from, size_of(type));
  return decode_float(bits, exponent, mantissa, bias);
}

/// to[i] = from[i] * factor, of floats.
inline void multiply(std::byte* to, const std::byte* from, std::size_t count, int type,
                     double factor) {
  for (std::size_t at = 0; at < count * size_of(type); at += size_of(type)) {
    const double product = number_at(from + at, type) * factor;
    const auto single = static_cast<float>(product);
    if (type == 7) {
      std::memcpy(to + at, &single, sizeof single);
    } else if (type == 8) {
      std::memcpy(to + at, &product, sizeof product);
    } else {
      const auto [exponent, mantissa, bias] = small_float(type);
      const auto bits = encode_float(product, exponent, mantissa, bias);
      std::memcpy(to + at, &bits, std::min(size_of(type), sizeof bits));
    }
  }
}

}  // namespace fake_gpu
