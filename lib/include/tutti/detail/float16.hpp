#pragma once

#include <bit>
#include <cstdint>

/// How 16-bit floats and binary32 become each other, as bits: to nearest, ties to even; a NaN stays
/// a NaN, with its sign and the upper bits of its payload.
namespace tutti::detail {

[[nodiscard]] constexpr std::uint16_t half_bits(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const auto magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    const auto payload = magnitude >> 13 & 0x3ff;
    // Without the upper bits it would be an infinity.
    return static_cast<std::uint16_t>(sign | 0x7c00 | (payload != 0 ? payload : 0x200));
  }
  // Halfway between the largest half, 65504, and what would come after it.
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);
  const auto rounded = [](std::uint32_t whole, std::uint32_t dropped_bits) {
    const auto half_unit = (std::uint32_t{1} << (dropped_bits - 1)) - 1;
    const auto is_odd = whole >> dropped_bits & 1;
    return (whole + half_unit + is_odd) >> dropped_bits;
  };
  constexpr std::uint32_t smallest_normal = 0x38800000;  // 2^-14
  if (magnitude >= smallest_normal) {
    // A carry into the exponent gives the right number, too.
    constexpr std::uint32_t rebias = (127 - 15) << 23;
    return static_cast<std::uint16_t>(sign | rounded(magnitude - rebias, 13));
  }
  // Multiples of 2^-24. Less than half of it is zero; the shift below would be too far.
  const auto exponent = magnitude >> 23;
  if (exponent < 102) return sign;
  const auto significand = (magnitude & 0x7fffff) | 0x800000;
  return static_cast<std::uint16_t>(sign | rounded(significand, 126 - exponent));
}

[[nodiscard]] constexpr float half_value(std::uint16_t bits) noexcept {
  const auto sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const auto exponent = static_cast<std::uint32_t>(bits >> 10 & 0x1f);
  const auto significand = static_cast<std::uint32_t>(bits & 0x3ff);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(significand) * 0x1p-24F;  // exact
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const auto rebiased = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | rebiased << 23 | significand << 13);
}

[[nodiscard]] constexpr std::uint16_t bfloat16_bits(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto upper = static_cast<std::uint16_t>(bits >> 16);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return (upper & 0x7f) != 0 ? upper : static_cast<std::uint16_t>(upper | 0x40);
  }
  return static_cast<std::uint16_t>((bits + 0x7fff + (upper & 1)) >> 16);
}

[[nodiscard]] constexpr float bfloat16_value(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace tutti::detail
