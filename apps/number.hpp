#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/shape.hpp"
#include "tutti/types.hpp"

/// Integers encoded as elements of any type: modulo 2^bits for integer types, exactly for floats.
/// A complex number is one integer, complex_of() its two parts.
namespace tutti::app {

/// Also complex numbers.
[[nodiscard]] bool is_float(Type type);
[[nodiscard]] bool is_signed(Type type);
[[nodiscard]] inline bool is_complex(Type type) {
  return part_of(type) != type;
}
/// Bits of an integer type, or of a float's significand including the implicit one. Integers up to
/// 2^precision are exact. Of complex numbers: of parts that complex_of() can hold.
[[nodiscard]] int precision_of(Type type);

/// Writes `number` as an element; unsigned types reinterpret it as unsigned. For floats it must be
/// exactly representable.
void encode(Type type, std::int64_t number, std::byte* to);
/// `number` after conversion to an integer type: wrapped around, sign-extended if the type is
/// signed.
[[nodiscard]] std::int64_t wrapped(Type type, std::int64_t number);

/// Two parts of at most 32 bits in one integer.
[[nodiscard]] constexpr std::int64_t complex_of(std::int64_t real, std::int64_t imaginary) {
  return real * (std::int64_t{1} << 32) + imaginary;
}
[[nodiscard]] constexpr std::int64_t imaginary_part(std::int64_t number) {
  return static_cast<std::int32_t>(number);
}
[[nodiscard]] constexpr std::int64_t real_part(std::int64_t number) {
  return (number - imaginary_part(number)) / (std::int64_t{1} << 32);
}

/// An element's value; for 64-bit integers rounded to a double, of a complex number the real part.
[[nodiscard]] double value_of(Type type, const std::byte* element);
/// "-3", "1.5", "nan", "1.5-2i"
[[nodiscard]] std::string value_text(Type type, const std::byte* element);

}  // namespace tutti::app
