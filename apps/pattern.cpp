#include "pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace tutti::app {
namespace {

std::uint64_t scramble(std::uint64_t value) {
  // splitmix64's finaliser, so that a shifted or repeated piece of the buffer does not look right.
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

/// 0 to 126: fits the smallest type, and a bfloat16 holds it exactly.
int value_of(int rank, std::size_t index) {
  return static_cast<int>(scramble(static_cast<std::uint64_t>(rank) << 40 ^ index) % 127);
}

/// 1 or 2: products of many stay exact.
int factor_of(int rank, std::size_t index) {
  return 1 + value_of(rank, index) % 2;
}

std::uint16_t half_bits(int value) {
  // Exact for whole numbers below 2048: exponent from the leading bit, the rest shifted into the
  // fraction.
  if (value == 0) return 0;
  const auto number = static_cast<unsigned>(value);
  const unsigned exponent = static_cast<unsigned>(std::bit_width(number)) - 1;
  return static_cast<std::uint16_t>(((exponent + 15) << 10) |
                                    ((number << (10 - exponent)) & 0x3FFU));
}

std::uint16_t bfloat16_bits(int value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
}

/// Calls `action` with a function that turns a whole number into the type's value.
template <class Action>
auto with_type(Type type, Action action) {
  switch (type) {
    case Type::i8:
      return action([](auto value) { return static_cast<std::int8_t>(value); });
    case Type::u8:
      return action([](auto value) { return static_cast<std::uint8_t>(value); });
    case Type::i32:
      return action([](auto value) { return static_cast<std::int32_t>(value); });
    case Type::u32:
      return action([](auto value) { return static_cast<std::uint32_t>(value); });
    case Type::i64:
      return action([](auto value) { return static_cast<std::int64_t>(value); });
    case Type::u64:
      return action([](auto value) { return static_cast<std::uint64_t>(value); });
    case Type::f16:
      return action([](auto value) { return half_bits(static_cast<int>(value)); });
    case Type::bf16:
      return action([](auto value) { return bfloat16_bits(static_cast<int>(value)); });
    case Type::f32:
      return action([](auto value) { return static_cast<float>(value); });
    case Type::f64:
      break;
  }
  return action([](auto value) { return static_cast<double>(value); });
}

template <class ValueAt>
void fill_with(std::byte* buffer, std::size_t count, Type type, ValueAt value_at) {
  with_type(type, [&](auto convert) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = convert(value_at(i));
      std::memcpy(buffer + i * sizeof value, &value, sizeof value);
    }
  });
}

template <class DueAt>
std::optional<Wrong> check_with(const std::byte* buffer, std::size_t count, Type type,
                                DueAt due_at) {
  Wrong wrong;
  with_type(type, [&](auto convert) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto due = due_at(i, convert);
      auto found = due;
      std::memcpy(&found, buffer + i * sizeof due, sizeof due);
      if (found == due) continue;
      if (wrong.elements++ == 0) {
        wrong.first = fmt::format("element {} is {} where {} is due", i, +found, +due);
      }
    }
  });
  if (wrong.elements == 0) return std::nullopt;
  return wrong;
}

}  // namespace

void fill(std::byte* buffer, std::size_t count, Type type, int rank) {
  fill_with(buffer, count, type, [rank](std::size_t i) { return value_of(rank, i); });
}

void fill_for(Operator op, std::byte* buffer, std::size_t count, Type type, int rank) {
  if (op != Operator::product) return fill(buffer, count, type, rank);
  fill_with(buffer, count, type, [rank](std::size_t i) { return factor_of(rank, i); });
}

std::optional<Wrong> check(const std::byte* buffer, std::size_t count, Type type, int rank) {
  return check_with(buffer, count, type,
                    [rank](std::size_t i, auto convert) { return convert(value_of(rank, i)); });
}

std::optional<Wrong> check_reduced(Operator op, const std::byte* buffer, std::size_t count,
                                   Type type, int ranks) {
  return check_with(buffer, count, type, [&](std::size_t i, auto convert) {
    // Sums and products of whole numbers, taken modulo the type where it is an integer, as the
    // reduction does.
    std::uint64_t total = op == Operator::product ? 1 : 0;
    double product = 1;
    int least = INT32_MAX;
    int most = INT32_MIN;
    for (int rank = 0; rank < ranks; ++rank) {
      const int value = value_of(rank, i);
      total = op == Operator::product ? total * static_cast<std::uint64_t>(factor_of(rank, i))
                                      : total + static_cast<std::uint64_t>(value);
      product *= factor_of(rank, i);
      least = std::min(least, value);
      most = std::max(most, value);
    }
    const bool is_floating = type == Type::f32 || type == Type::f64;
    switch (op) {
      case Operator::min:
        return convert(least);
      case Operator::max:
        return convert(most);
      case Operator::average: {
        const auto sum = convert(total);
        using Value = std::decay_t<decltype(sum)>;
        if (is_floating) return static_cast<Value>(sum / static_cast<Value>(ranks));
        return static_cast<Value>(static_cast<std::int64_t>(sum) / ranks);
      }
      case Operator::product:
        return is_floating ? convert(product) : convert(total);
      case Operator::sum:
        break;
    }
    return convert(total);
  });
}

}  // namespace tutti::app
