// Element types and operators by name and size.
#include "tutti/types.hpp"

#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::test {

TEST_CASE("every type is found by its name and has its size") {
  const std::pair<std::string_view, std::size_t> table[] = {
      {"i8", 1},  {"u8", 1},   {"i32", 4}, {"u32", 4}, {"i64", 8},    {"u64", 8},
      {"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"f8e4m3", 1}, {"f8e5m2", 1}};
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
       {"sum", "product", "min", "max", "average", "bit_and", "bit_or", "bit_xor"}) {
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
  CHECK(!Element<bool>);
  CHECK(!Element<short>);
  CHECK(!Element<long double>);
  CHECK(TypeOf<float8_e4m3>::value == Type::f8e4m3);
  CHECK(TypeOf<float8_e5m2>::value == Type::f8e5m2);
  CHECK(Reducible<half>);
  CHECK(!Reducible<float8_e4m3>);
  CHECK(!Reducible<std::byte>);
}

}  // namespace tutti::test
