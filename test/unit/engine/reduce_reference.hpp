#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/reduce.hpp"

/// Reference arithmetic of reductions: plain, slow, element by element.
namespace tutti::engine::test {

/// One element in the low bytes.
using Bits = std::uint64_t;

Bits reference_reduce(Type type, Operator op, Bits a, Bits b);
/// Combines all parts in order, with one rounding of 16-bit floats.
Bits reference_combine(Type type, Operator op, std::span<const Bits> parts);
/// For f32 and f64 after `reference_weigh` and a sum.
Bits reference_divide(Type type, Bits value, int ranks);
Bits reference_weigh(Type type, Bits value, double factor);
/// Of a contribution to an average.
double reference_weight(int ranks);

/// The number that a float's bits represent, and the nearest float to a number (ties to even; NaN
/// is the positive quiet one).
double number_of(Type type, Bits bits);
Bits nearest(Type type, double number);

/// Random bits, special values (NaN, zeros, denormal numbers, infinities, extremes) and, often,
/// numbers close to each other, so that sums must be rounded.
Bits random_element(Type type, std::mt19937_64& random);
std::vector<Bits> random_elements(Type type, std::size_t count, std::mt19937_64& random);

void write(Type type, std::span<const Bits> elements, std::byte* to);
std::vector<Bits> read(Type type, const std::byte* from, std::size_t count);

/// A buffer whose elements begin at any misalignment, with guard bytes around it.
class Buffer {
 public:
  Buffer(std::size_t size, std::size_t offset);

  [[nodiscard]] std::byte* data() { return bytes_.data() + margin + offset_; }
  /// True if the guard bytes are unchanged.
  [[nodiscard]] bool intact() const;

 private:
  static constexpr std::size_t margin = 64;
  static constexpr std::byte mark{0xa5};

  std::size_t size_;
  std::size_t offset_;
  std::vector<std::byte> bytes_;
};

/// Fails the test at the first element that differs.
struct Comparison {
  const char* what = "";
  Type type = Type::u8;
  Operator op = Operator::sum;
  InstructionSet set = InstructionSet::baseline;

  void check(std::span<const Bits> expected, const std::byte* actual) const;
};

/// Complex numbers are tested against their parts.
inline constexpr Type reducible_types[] = {
    Type::i8,  Type::u8,  Type::i16,  Type::u16, Type::i32, Type::u32,    Type::i64,
    Type::u64, Type::f16, Type::bf16, Type::f32, Type::f64, Type::boolean};

/// Calls `f(type, op)` for every reducible combination.
template <class F>
void for_each_reduction(F f) {
  for (const auto type : reducible_types) {
    for (int op = 0; op < operator_count; ++op) {
      if (reducible(type, Operator(op))) f(type, Operator(op));
    }
  }
}

}  // namespace tutti::engine::test
