#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/types.hpp"

/// Whole numbers as elements of any type. Integers are taken modulo the type, floats exactly.
namespace tutti::app {

[[nodiscard]] bool is_float(Type type);
[[nodiscard]] bool is_signed(Type type);
/// Bits of an integer, or of a float's significand with the leading one: whole numbers up to
/// 2^precision are exact.
[[nodiscard]] int precision_of(Type type);

/// Writes `number`, which for unsigned types is taken as unsigned. For floats it must be exact.
void encode(Type type, std::int64_t number, std::byte* to);
/// The number that an integer type keeps of `number`: wrapped around, with its sign if it has one.
[[nodiscard]] std::int64_t wrapped(Type type, std::int64_t number);

/// An element's value; for 64-bit integers as near as a double comes.
[[nodiscard]] double value_of(Type type, const std::byte* element);
/// "-3", "1.5", "nan"
[[nodiscard]] std::string value_text(Type type, const std::byte* element);

}  // namespace tutti::app
