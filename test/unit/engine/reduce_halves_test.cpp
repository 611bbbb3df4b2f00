// 16-bit floats: conversions of every value, and where results are rounded.
#include <limits>
#include <vector>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "reduce_reference.hpp"
#include "support/catch.hpp"

namespace tutti::engine::test {
namespace {

constexpr Type sixteen_bits[] = {Type::f16, Type::bf16};

std::vector<Bits> all_values() {
  std::vector<Bits> result(0x10000);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = i;
  return result;
}

/// The value itself, or the quiet NaN.
std::vector<Bits> passed_through(Type type) {
  auto result = all_values();
  const Bits infinity = type == Type::f16 ? 0x7c00 : 0x7f80;
  const Bits quiet = type == Type::f16 ? 0x7e00 : 0x7fc0;
  for (auto& value : result) {
    if ((value & 0x7fff) > infinity) value = quiet;
  }
  return result;
}

/// The numbers must be representable in the type.
double combined(Type type, Operator op, std::vector<double> parts, InstructionSet set) {
  std::vector<std::byte> bytes(2 * parts.size());
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const auto bits = nearest(type, parts[k]);
    REQUIRE(number_of(type, bits) == parts[k]);
    write(type, std::vector{bits}, bytes.data() + 2 * k);
  }
  combine_function(type, op, set)(bytes.data(), bytes.data(), 2, parts.size(), 1);
  return number_of(type, read(type, bytes.data(), 1)[0]);
}

}  // namespace

TEST_CASE("every 16-bit float passes the conversions unchanged") {
  const auto values = all_values();
  for (const auto type : sixteen_bits) {
    const auto expected = passed_through(type);
    for (const auto set : instruction_sets()) {
      std::vector<std::byte> from(2 * values.size());
      std::vector<std::byte> to(from.size());
      write(type, values, from.data());
      for (const auto op :
           {Operator::sum, Operator::product, Operator::min, Operator::max, Operator::average}) {
        combine_function(type, op, set)(to.data(), from.data(), 0, 1, values.size());
        Comparison{"one part", type, op, set}.check(expected, to.data());
      }
      divide(from.data(), values.size(), type, 1, set);
      Comparison{"divided by one", type, Operator::average, set}.check(expected, from.data());
    }
  }
}

#ifdef __x86_64__
TEST_CASE("f16, min and max keep denormal numbers where the program flushes those of f32") {
  // The mode of programs compiled with -ffast-math.
  class Flushing {
   public:
    Flushing() { _mm_setcsr(before_ | 0x8040); }
    ~Flushing() { _mm_setcsr(before_); }
    Flushing(const Flushing&) = delete;
    Flushing& operator=(const Flushing&) = delete;

   private:
    unsigned before_ = _mm_getcsr();
  };
  const auto values = all_values();
  const auto expected = passed_through(Type::f16);
  for (const auto set : instruction_sets()) {
    std::vector<std::byte> bytes(2 * values.size());
    write(Type::f16, values, bytes.data());
    const std::vector<Bits> small{0x3, 0x80000005};
    std::vector<std::byte> least(4);
    std::vector<std::byte> most(4);
    std::vector<std::byte> pair(8);
    write(Type::f32, small, pair.data());
    {
      const Flushing flushing;
      combine_function(Type::f16, Operator::sum, set)(bytes.data(), bytes.data(), 0, 1,
                                                      values.size());
      reduce_function(Type::f32, Operator::min, set)(least.data(), pair.data(), pair.data() + 4, 1);
      reduce_function(Type::f32, Operator::max, set)(most.data(), pair.data(), pair.data() + 4, 1);
    }
    Comparison{"one part", Type::f16, Operator::sum, set}.check(expected, bytes.data());
    CHECK(read(Type::f32, least.data(), 1)[0] == 0x80000005);
    CHECK(read(Type::f32, most.data(), 1)[0] == 0x3);
  }
}
#endif

TEST_CASE("the reference converts every 16-bit float") {
  for (const auto type : sixteen_bits) {
    const auto expected = passed_through(type);
    for (const auto value : all_values()) {
      const auto found = nearest(type, number_of(type, value));
      if (found != expected[value]) FAIL(name(type) << " 0x" << std::hex << value);
    }
  }
  CHECK(number_of(Type::f16, 0x3c00) == 1);
  CHECK(number_of(Type::f16, 0xc001) == -2 * (1 + 0x1p-10));
  CHECK(number_of(Type::f16, 0x7bff) == 65504);
  CHECK(number_of(Type::f16, 0x0001) == 0x1p-24);
  CHECK(number_of(Type::bf16, 0x3f81) == 1 + 0x1p-7);
  CHECK(number_of(Type::bf16, 0x8001) == -0x1p-133);
}

TEST_CASE("every 16-bit float is rounded to nearest, ties to even, in a sum and a product") {
  const auto values = all_values();
  for (const auto type : sixteen_bits) {
    // Shifts by odd amounts into halves of the last place, down to the denormal numbers and up
    // beyond the largest.
    for (const double other : {1.5, 1 + 0x1p-7, -0x1p-7, 0x1p-9, 3 * 0x1p-14, 0x1p14}) {
      const auto bits = nearest(type, other);
      for (const auto op : {Operator::sum, Operator::product}) {
        std::vector<Bits> expected(values.size());
        for (const auto value : values) expected[value] = reference_reduce(type, op, value, bits);
        for (const auto set : instruction_sets()) {
          std::vector<std::byte> a(2 * values.size());
          std::vector<std::byte> b(a.size());
          write(type, values, a.data());
          write(type, std::vector<Bits>(values.size(), bits), b.data());
          reduce_function(type, op, set)(a.data(), a.data(), b.data(), values.size());
          Comparison{"rounding", type, op, set}.check(expected, a.data());
        }
      }
    }
  }
}

TEST_CASE("ties go to even and overflow to infinity, in numbers one can check by hand") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const auto set : instruction_sets()) {
    const auto f16 = [set](Operator op, std::vector<double> parts) {
      return combined(Type::f16, op, std::move(parts), set);
    };
    const auto bf16 = [set](Operator op, std::vector<double> parts) {
      return combined(Type::bf16, op, std::move(parts), set);
    };
    CHECK(f16(Operator::sum, {2048, 1}) == 2048);
    CHECK(f16(Operator::sum, {2050, 1}) == 2052);
    CHECK(f16(Operator::sum, {2048, 1, 0x1p-10}) == 2050);  // above the tie
    CHECK(f16(Operator::sum, {65504, 15}) == 65504);
    CHECK(f16(Operator::sum, {65504, 16}) == infinity);
    CHECK(f16(Operator::sum, {-65504, -16}) == -infinity);
    CHECK(f16(Operator::product, {0x1p-24, 0.5}) == 0);
    CHECK(f16(Operator::product, {3 * 0x1p-24, 0.5}) == 0x1p-23);
    CHECK(f16(Operator::product, {1023 * 0x1p-24, 1 + 0x1p-10}) == 0x1p-14);
    CHECK(bf16(Operator::sum, {256, 1}) == 256);
    CHECK(bf16(Operator::sum, {258, 1}) == 260);
    CHECK(bf16(Operator::sum, {256, 1, 0x1p-7}) == 258);
    CHECK(bf16(Operator::product, {255 * 0x1p120, 1 + 0x1p-7}) == infinity);
    CHECK(bf16(Operator::product, {0x1p-133, 0.5}) == 0);
    CHECK(bf16(Operator::product, {3 * 0x1p-133, 0.5}) == 0x1p-132);
  }
}

TEST_CASE("many parts are rounded once, and averages after their division") {
  for (const auto set : instruction_sets()) {
    // Added one at a time, each 1 would be lost.
    CHECK(combined(Type::f16, Operator::sum, {2048, 1, 1, 1, 1}, set) == 2052);
    CHECK(combined(Type::bf16, Operator::sum, {256, 1, 1, 1, 1}, set) == 260);
    // The sum is not representable in f16, the average is.
    CHECK(combined(Type::f16, Operator::average, {60000, 60000, 60000}, set) == 60000);
    CHECK(combined(Type::f16, Operator::average, {1025, 1026}, set) == 1026);  // 1025.5, to even
    CHECK(combined(Type::bf16, Operator::average, {1, 2, 3, 4}, set) == 2.5);
    // The sum exceeds the largest bf16 and f32; the smallest number is not lost.
    const double large = 226 * 0x1p120;
    CHECK(combined(Type::bf16, Operator::average, {large, large}, set) == large);
    CHECK(combined(Type::bf16, Operator::average, {-large, -large, -large}, set) == -large);
    CHECK(combined(Type::bf16, Operator::average, {0x1p-133, 0x1p-133, 0x1p-133}, set) == 0x1p-133);
    // In the order of the parts.
    CHECK(combined(Type::bf16, Operator::sum, {0x1p60, -0x1p60, 1}, set) == 1);
    CHECK(combined(Type::bf16, Operator::sum, {1, 0x1p60, -0x1p60}, set) == 0);
  }
  CHECK(divides_itself(Type::f16));
  CHECK(divides_itself(Type::bf16));
  CHECK(!divides_itself(Type::f32));
  CHECK(!divides_itself(Type::i8));
}

}  // namespace tutti::engine::test
