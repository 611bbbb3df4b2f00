#include "reduce_reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/catch.hpp"

namespace tutti::engine::test {
namespace {

__extension__ using Integer = __int128;

bool is_float(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64;
}

bool is_signed(Type type) {
  return type == Type::i8 || type == Type::i16 || type == Type::i32 || type == Type::i64;
}

struct Shape {
  int fraction_bits;
  int exponent_bits;

  [[nodiscard]] int min_exponent() const { return 2 - (1 << (exponent_bits - 1)); }
  [[nodiscard]] Bits sign() const { return Bits{1} << (fraction_bits + exponent_bits); }
  [[nodiscard]] Bits one_fraction() const { return Bits{1} << fraction_bits; }
  [[nodiscard]] Bits infinity() const { return sign() - one_fraction(); }
  [[nodiscard]] Bits quiet() const { return infinity() + one_fraction() / 2; }
};

Shape shape_of(Type type) {
  switch (type) {
    case Type::f16:
      return {10, 5};
    case Type::bf16:
      return {7, 8};
    case Type::f32:
      return {23, 8};
    default:
      return {52, 11};
  }
}

Bits low_bytes(Type type, Bits bits) {
  return size_of(type) == 8 ? bits : bits & ((Bits{1} << (8 * size_of(type))) - 1);
}

Integer integer_of(Type type, Bits bits) {
  const auto width = 8 * size_of(type);
  if (!is_signed(type) || (bits >> (width - 1)) == 0) return bits;
  return static_cast<Integer>(bits) - (Integer{1} << width);
}

Integer reduce_integers(Operator op, Integer a, Integer b) {
  switch (op) {
    case Operator::product:
      return static_cast<Integer>(static_cast<Bits>(a) * static_cast<Bits>(b));
    case Operator::min:
      return a < b ? a : b;
    case Operator::max:
      return a > b ? a : b;
    case Operator::bit_and:
      return a & b;
    case Operator::bit_or:
      return a | b;
    case Operator::bit_xor:
      return a ^ b;
    case Operator::logical_and:
      return a != 0 && b != 0 ? 1 : 0;
    case Operator::logical_or:
      return a != 0 || b != 0 ? 1 : 0;
    case Operator::logical_xor:
      return (a != 0) != (b != 0) ? 1 : 0;
    default:
      return a + b;
  }
}

/// Of bool.
Operator logical(Operator op) {
  switch (op) {
    case Operator::sum:
    case Operator::max:
    case Operator::bit_or:
      return Operator::logical_or;
    case Operator::product:
    case Operator::min:
    case Operator::bit_and:
      return Operator::logical_and;
    case Operator::bit_xor:
      return Operator::logical_xor;
    default:
      return op;
  }
}

/// An f64 operation rounded to f32 equals the f32 operation.
double in_precision_of(Type type, double number) {
  return type == Type::f64 ? number : static_cast<double>(static_cast<float>(number));
}

/// −0 < +0.
bool less(double a, double b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

double reduce_numbers(Type type, Operator op, double a, double b) {
  switch (op) {
    case Operator::product:
      return in_precision_of(type, a * b);
    case Operator::min:
    case Operator::max:
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
      return less(a, b) == (op == Operator::min) ? a : b;
    default:
      return in_precision_of(type, a + b);
  }
}

Bits special(Type type, std::mt19937_64& random) {
  if (is_float(type)) {
    const auto shape = shape_of(type);
    const Bits one = static_cast<Bits>(1 - shape.min_exponent()) << shape.fraction_bits;
    const Bits values[] = {0,
                           1,
                           shape.one_fraction() - 1,
                           shape.one_fraction(),
                           one,
                           shape.infinity() - 1,
                           shape.infinity(),
                           shape.infinity() + 1,
                           shape.quiet(),
                           shape.quiet() + 5};
    return values[random() % std::size(values)] | (random() % 2 == 0 ? shape.sign() : 0);
  }
  const Bits top = Bits{1} << (8 * size_of(type) - 1);
  const Bits values[] = {0, 1, 2, top - 1, top, top + 1, ~Bits{0}, ~Bits{0} - 1};
  return low_bytes(type, values[random() % std::size(values)]);
}

Bits moderate(Type type, std::mt19937_64& random) {
  if (!is_float(type)) return low_bytes(type, random() % 201 - 100);
  const auto shape = shape_of(type);
  const Bits exponent = static_cast<Bits>(1 - shape.min_exponent()) + random() % 7 - 3;
  return (exponent << shape.fraction_bits) + random() % shape.one_fraction() +
         (random() % 2 == 0 ? shape.sign() : 0);
}

}  // namespace

double number_of(Type type, Bits bits) {
  const auto shape = shape_of(type);
  const auto fraction = bits % shape.one_fraction();
  const auto field = static_cast<int>(bits % shape.sign() / shape.one_fraction());
  const double sign = bits < shape.sign() ? 1 : -1;
  if (bits % shape.sign() > shape.infinity()) return std::numeric_limits<double>::quiet_NaN();
  if (bits % shape.sign() == shape.infinity()) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const auto unit = shape.min_exponent() - shape.fraction_bits;
  if (field == 0) return sign * std::ldexp(static_cast<double>(fraction), unit);
  return sign * std::ldexp(static_cast<double>(fraction + shape.one_fraction()), unit + field - 1);
}

Bits nearest(Type type, double number) {
  const auto shape = shape_of(type);
  if (std::isnan(number)) return shape.quiet();
  const Bits sign = std::signbit(number) ? shape.sign() : 0;
  if (std::isinf(number)) return sign | shape.infinity();
  if (number == 0) return sign;
  const auto exponent = std::max(std::ilogb(number), shape.min_exponent());
  const auto units = std::nearbyint(std::ldexp(std::abs(number), shape.fraction_bits - exponent));
  // If rounding carries out of the fraction, the addition carries into the exponent.
  const auto bits = (static_cast<Bits>(exponent - shape.min_exponent()) << shape.fraction_bits) +
                    static_cast<Bits>(units);
  return sign | std::min(bits, shape.infinity());
}

Bits reference_reduce(Type type, Operator op, Bits a, Bits b) {
  if (is_float(type)) {
    return nearest(type, reduce_numbers(type, op, number_of(type, a), number_of(type, b)));
  }
  if (type == Type::boolean) op = logical(op);
  return low_bytes(
      type, static_cast<Bits>(reduce_integers(op, integer_of(type, a), integer_of(type, b))));
}

namespace {

int weighing_exponent(int ranks) {
  return ranks == 1 ? 0 : -1 - static_cast<int>(std::ceil(std::log2(ranks)));
}

}  // namespace

Bits reference_combine(Type type, Operator op, std::span<const Bits> parts) {
  if (!is_float(type)) {
    auto result = parts[0];
    for (const auto part : parts.subspan(1)) result = reference_reduce(type, op, result, part);
    return result;
  }
  // A bf16 sum would overflow although the average does not; the product is exact in f32.
  const bool weighs = type == Type::bf16 && op == Operator::average;
  const int exponent = weighs ? weighing_exponent(static_cast<int>(parts.size())) : 0;
  const auto part_of = [&](Bits part) { return std::ldexp(number_of(type, part), exponent); };
  auto result = part_of(parts[0]);
  for (const auto part : parts.subspan(1)) {
    result = reduce_numbers(type, op, result, part_of(part));
  }
  if (op == Operator::average && size_of(type) == 2) {
    const auto divisor = std::ldexp(static_cast<double>(parts.size()), exponent);
    result = in_precision_of(type, result / divisor);
  }
  return nearest(type, result);
}

double reference_weight(int ranks) {
  return std::ldexp(1, weighing_exponent(ranks));
}

Bits reference_weigh(Type type, Bits value, double factor) {
  const auto product = number_of(type, value) * in_precision_of(type, factor);
  return nearest(type, in_precision_of(type, product));
}

Bits reference_divide(Type type, Bits value, int ranks) {
  if (type == Type::f32 || type == Type::f64) {
    const auto number = number_of(type, value);
    const auto divisor = std::ldexp(in_precision_of(type, ranks), weighing_exponent(ranks));
    const auto average = nearest(type, in_precision_of(type, number / divisor));
    if (!std::isfinite(number) || std::isfinite(number_of(type, average))) return average;
    const double most =
        type == Type::f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
    return nearest(type, std::copysign(most, number));
  }
  if (is_float(type)) {
    return nearest(type,
                   in_precision_of(type, number_of(type, value) / in_precision_of(type, ranks)));
  }
  return low_bytes(type, static_cast<Bits>(integer_of(type, value) / ranks));
}

Bits random_element(Type type, std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return low_bytes(type, random());
    case 1:
      return special(type, random);
    default:
      return moderate(type, random);
  }
}

std::vector<Bits> random_elements(Type type, std::size_t count, std::mt19937_64& random) {
  std::vector<Bits> result(count);
  for (auto& element : result) element = random_element(type, random);
  return result;
}

void write(Type type, std::span<const Bits> elements, std::byte* to) {
  static_assert(std::endian::native == std::endian::little);
  for (const auto element : elements) {
    std::memcpy(to, &element, size_of(type));
    to += size_of(type);
  }
}

std::vector<Bits> read(Type type, const std::byte* from, std::size_t count) {
  std::vector<Bits> result(count);
  for (auto& element : result) {
    std::memcpy(&element, from, size_of(type));
    from += size_of(type);
  }
  return result;
}

Buffer::Buffer(std::size_t size, std::size_t offset)
    : size_(size), offset_(offset), bytes_(size + 16 + 2 * margin, mark) {}

bool Buffer::intact() const {
  const auto untouched = [](std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == mark; });
  };
  const std::span all(bytes_);
  return untouched(all.first(margin + offset_)) && untouched(all.subspan(margin + offset_ + size_));
}

void Comparison::check(std::span<const Bits> expected, const std::byte* actual) const {
  const auto found = read(type, actual, expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (found[i] == expected[i]) continue;
    FAIL(what << ": " << name(type) << ' ' << name(op) << " by instruction set "
              << static_cast<int>(set) << ": element " << i << " of " << expected.size() << " is 0x"
              << std::hex << found[i] << " and should be 0x" << expected[i]);
  }
}

}  // namespace tutti::engine::test
