// Element types and operators by name and size.
#include "tutti/types.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::test {

TEST_CASE("every type is found by its name and has its size") {
  const std::pair<std::string_view, std::size_t> table[] = {
      {"i8", 1},  {"u8", 1},   {"i32", 4},  {"u32", 4}, {"i64", 8},    {"u64", 8},
      {"f16", 2}, {"bf16", 2}, {"f32", 4},  {"f64", 8}, {"f8e4m3", 1}, {"f8e5m2", 1},
      {"i16", 2}, {"u16", 2},  {"bool", 1}, {"c64", 8}, {"c128", 16}};
  for (const auto& [text, size] : table) {
    INFO(text);
    const auto type = parse_type(text);
    REQUIRE(type);
    CHECK(name(*type) == text);
    CHECK(size_of(*type) == size);
  }
  CHECK(!parse_type("f8"));
  CHECK(!parse_type("F32"));
  CHECK(!parse_type(""));
}

TEST_CASE("every operator is found by its name") {
  for (const auto* text :
       {"sum", "product", "min", "max", "average", "bit_and", "bit_or", "bit_xor", "logical_and",
        "logical_or", "logical_xor", "premultiplied_sum"}) {
    INFO(text);
    REQUIRE(parse_operator(text));
    CHECK(name(*parse_operator(text)) == text);
  }
  CHECK(!parse_operator("mean"));
}

TEST_CASE("out-of-range enumeration values are safe") {
  CHECK(size_of(static_cast<Type>(77)) == 1);
  CHECK(name(static_cast<Type>(77)) == "unknown type");
  CHECK(name(static_cast<Operator>(77)) == "unknown operator");
  CHECK(std::string_view(name(static_cast<ErrorCode>(77))) == "unknown");
}

TEST_CASE("C++ types map to the element types of their size") {
  CHECK(TypeOf<int>::value == Type::i32);
  CHECK(TypeOf<unsigned>::value == Type::u32);
  CHECK(TypeOf<long>::value == Type::i64);
  CHECK(TypeOf<long long>::value == Type::i64);
  CHECK(TypeOf<unsigned long long>::value == Type::u64);
  CHECK(TypeOf<signed char>::value == Type::i8);
  CHECK(TypeOf<std::byte>::value == Type::u8);
  CHECK(TypeOf<float>::value == Type::f32);
  CHECK(TypeOf<double>::value == Type::f64);
  CHECK(TypeOf<half>::value == Type::f16);
  CHECK(TypeOf<bfloat16>::value == Type::bf16);
  CHECK(TypeOf<bool>::value == Type::boolean);
  CHECK(TypeOf<short>::value == Type::i16);
  CHECK(TypeOf<unsigned short>::value == Type::u16);
  CHECK(TypeOf<std::complex<float>>::value == Type::c64);
  CHECK(TypeOf<std::complex<double>>::value == Type::c128);
  CHECK(!Element<long double>);
  CHECK(TypeOf<float8_e4m3>::value == Type::f8e4m3);
  CHECK(TypeOf<float8_e5m2>::value == Type::f8e5m2);
  CHECK(Reducible<half>);
  CHECK(Reducible<std::complex<float>>);
  CHECK(!Reducible<float8_e4m3>);
  CHECK(!Reducible<std::byte>);
}

TEST_CASE("operators are defined where they have a meaning") {
  CHECK(reducible(Type::i16, logical_xor));
  CHECK(!reducible(Type::i16, Operator::premultiplied_sum));
  CHECK(reducible(Type::bf16, Operator::premultiplied_sum));
  CHECK(!reducible(Type::f32, logical_and));
  CHECK(reducible(Type::boolean, product));
  CHECK(!reducible(Type::boolean, average));
  CHECK(reducible(Type::c128, average));
  CHECK(!reducible(Type::c64, max));
  CHECK(!reducible(Type::f8e4m3, sum));
  CHECK(!reducible(static_cast<Type>(77), sum));
  CHECK(!reducible(Type::i8, static_cast<Operator>(77)));
}

TEST_CASE("what is no number of ours can travel as bytes, unless it is a pointer") {
  struct Pair {
    int number;
    double weight;
  };
  struct Owner {
    Owner(const Owner&);
  };
  CHECK(Transferable<float>);
  CHECK(Transferable<Pair>);
  CHECK(Transferable<bool>);
  CHECK(Transferable<short>);
  CHECK(!Transferable<Owner>);
  CHECK(!Transferable<int*>);
  CHECK(!Transferable<int Pair::*>);
  CHECK(!Transferable<int[3]>);
  CHECK(!Transferable<std::nullptr_t>);
  CHECK(!Element<Pair>);
  CHECK(!Reducible<Pair>);
}

namespace {

template <class F>
F from_bits(unsigned bits) {
  return F::from_bits(static_cast<std::uint16_t>(bits));
}

constexpr unsigned infinity_of_half = 0x7c00;
constexpr unsigned infinity_of_bfloat16 = 0x7f80;

/// All numbers of a format, their neighbours in f32 and the middle between each two.
template <class F>
void check_rounding(unsigned infinity) {
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const auto low = static_cast<float>(from_bits<F>(bits));
    const bool is_last = bits + 1 == infinity;
    // The value of the encoding after the largest number, if it were finite.
    const auto high = is_last ? low + (low - static_cast<float>(from_bits<F>(bits - 1)))
                              : static_cast<float>(from_bits<F>(bits + 1));
    // In f64: of bf16 the middle is an f32, and the next number may be none.
    const auto middle = static_cast<float>(
        low + (static_cast<double>(std::isinf(high) ? 0x1p128 : high) - low) / 2);
    const auto even = bits % 2 == 0 ? bits : bits + 1;
    for (const float sign : {1.0F, -1.0F}) {
      const unsigned sign_bit = sign < 0 ? 0x8000 : 0;
      const auto rounded = [&](float value) { return F(sign * value).bits; };
      const bool is_right =
          rounded(low) == (bits | sign_bit) && rounded(middle) == (even | sign_bit) &&
          rounded(std::nextafter(middle, 0.0F)) == (bits | sign_bit) &&
          rounded(std::nextafter(middle, std::numeric_limits<float>::infinity())) ==
              ((bits + 1) | sign_bit);
      if (!is_right) FAIL("wrong near " << bits << ", times " << sign);
    }
  }
}

/// Every bit pattern comes back from f32, NaN included.
template <class F>
void check_all_bits(unsigned infinity) {
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    const auto value = static_cast<float>(from_bits<F>(bits));
    const bool is_nan = (bits & 0x7fff) > infinity;
    if (std::isnan(value) != is_nan || F(value).bits != bits ||
        std::signbit(value) != (bits >= 0x8000)) {
      FAIL("wrong for " << bits << ": " << value << ", back as " << F(value).bits);
    }
  }
}

}  // namespace

TEST_CASE("all 65536 values of a 16-bit float come back from f32") {
  check_all_bits<half>(infinity_of_half);
  check_all_bits<bfloat16>(infinity_of_bfloat16);
}

TEST_CASE("f32 becomes the nearest 16-bit float, of two the even one") {
  check_rounding<half>(infinity_of_half);
  check_rounding<bfloat16>(infinity_of_bfloat16);
}

TEST_CASE("16-bit floats have the values of their formats") {
  const std::array<std::pair<unsigned, float>, 8> halves{{{0x0001, 0x1p-24F},
                                                          {0x03ff, 0x1.ff8p-15F},
                                                          {0x0400, 0x1p-14F},
                                                          {0x3555, 0x1.554p-2F},
                                                          {0x3c00, 1},
                                                          {0xc000, -2},
                                                          {0x7bff, 65504},
                                                          {0x7c00, INFINITY}}};
  for (const auto& [bits, value] : halves) {
    CHECK(static_cast<float>(from_bits<half>(bits)) == value);
  }
  CHECK(static_cast<float>(from_bits<bfloat16>(0x3f80)) == 1);
  CHECK(static_cast<float>(from_bits<bfloat16>(0xc049)) == -3.140625F);
  CHECK(half(65519.0F).bits == 0x7bff);
  CHECK(half(65520.0F).bits == infinity_of_half);
  CHECK(half(1e30F).bits == infinity_of_half);
  CHECK(half(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(bfloat16(std::numeric_limits<float>::max()).bits == infinity_of_bfloat16);
}

TEST_CASE("a NaN whose upper bits are zero stays a NaN") {
  const auto nan = std::bit_cast<float>(0xff800001);
  CHECK(std::isnan(static_cast<float>(half(nan))));
  CHECK(std::isnan(static_cast<float>(bfloat16(nan))));
  CHECK(half(nan).bits == 0xfe00);
  CHECK(bfloat16(nan).bits == 0xffc0);
}

TEST_CASE("16-bit floats are made of f32 alone, and not without asking") {
  CHECK(!std::is_convertible_v<float, half>);
  CHECK(!std::is_convertible_v<half, float>);
  CHECK(!std::is_constructible_v<half, int>);  // it may be bits
  CHECK(!std::is_constructible_v<bfloat16, double>);
  CHECK(std::is_trivially_copyable_v<half>);
  CHECK(std::is_trivially_default_constructible_v<bfloat16>);
  CHECK(sizeof(half) == 2);
}

}  // namespace tutti::test
