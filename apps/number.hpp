#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/types.hpp"

/// Integers encoded as elements of any type: modulo 2^bits for integer types, exactly for floats.
namespace tutti::app {

[[nodiscard]] bool is_float(Type type);
[[nodiscard]] bool is_signed(Type type);
/// Bits of an integer type, or of a float's significand including the implicit one. Integers up to
/// 2^precision are exact.
[[nodiscard]] int precision_of(Type type);

/// Writes `number` as an element; unsigned types reinterpret it as unsigned. For floats it must be
/// exactly representable.
void encode(Type type, std::int64_t number, std::byte* to);
/// `number` after conversion to an integer type: wrapped around, sign-extended if the type is
/// signed.
[[nodiscard]] std::int64_t wrapped(Type type, std::int64_t number);

/// An element's value; for 64-bit integers rounded to a double.
[[nodiscard]] double value_of(Type type, const std::byte* element);
/// "-3", "1.5", "nan"
[[nodiscard]] std::string value_text(Type type, const std::byte* element);

}  // namespace tutti::app
