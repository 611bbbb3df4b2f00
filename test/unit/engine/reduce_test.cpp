// Arithmetic of every type and operator.
#include "engine/reduce.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "support/catch.hpp"

namespace tutti::engine::test {

namespace {

template <class T>
T combined(Operator op, T a, T b) {
  T result{};
  const auto bytes = [](auto& value) { return std::as_bytes(std::span(&value, 1)).data(); };
  reduce_function(TypeOf<T>::value, op)(std::as_writable_bytes(std::span(&result, 1)).data(),
                                        bytes(a), bytes(b), 1);
  return result;
}

template <class T>
T divided(T value, int ranks) {
  auto* const bytes = std::as_writable_bytes(std::span(&value, 1)).data();
  if (is_weighed(TypeOf<T>::value)) {
    weigh(bytes, bytes, 1, TypeOf<T>::value, average_weight(static_cast<std::size_t>(ranks)));
  }
  divide(bytes, 1, TypeOf<T>::value, ranks);
  return value;
}

template <class T>
void check_small_numbers() {
  CHECK(combined<T>(Operator::sum, 7, 5) == T{12});
  CHECK(combined<T>(Operator::average, 7, 5) == T{12});  // divided at the end
  CHECK(combined<T>(Operator::product, 7, 5) == T{35});
  CHECK(combined<T>(Operator::min, 7, 5) == T{5});
  CHECK(combined<T>(Operator::min, 5, 7) == T{5});
  CHECK(combined<T>(Operator::max, 7, 5) == T{7});
  CHECK(combined<T>(Operator::max, 5, 7) == T{7});
  CHECK(divided<T>(12, 4) == T{3});
}

template <class T>
void check_wrapping() {
  constexpr auto least = std::numeric_limits<T>::min();
  constexpr auto most = std::numeric_limits<T>::max();
  CHECK(combined<T>(Operator::sum, most, 1) == least);
  CHECK(combined<T>(Operator::sum, most, most) == static_cast<T>(-2));
  CHECK(combined<T>(Operator::product, most, most) == T{1});
  CHECK(combined<T>(Operator::product, most, 2) == static_cast<T>(-2));
  CHECK(combined<T>(Operator::min, least, most) == least);
  CHECK(combined<T>(Operator::max, least, most) == most);
}

template <class T>
void check_signed() {
  constexpr auto least = std::numeric_limits<T>::min();
  CHECK(combined<T>(Operator::sum, least, -1) == std::numeric_limits<T>::max());
  CHECK(combined<T>(Operator::product, least, -1) == least);
  CHECK(combined<T>(Operator::min, -3, 2) == T{-3});
  CHECK(combined<T>(Operator::max, -3, 2) == T{2});
  CHECK(divided<T>(-7, 2) == T{-3});  // toward zero
  CHECK(divided<T>(7, 2) == T{3});
  CHECK(divided<T>(-1, 3) == T{0});
  CHECK(divided<T>(least, 1) == least);
}

template <class T>
void check_floating() {
  constexpr auto nan = std::numeric_limits<T>::quiet_NaN();
  constexpr auto infinity = std::numeric_limits<T>::infinity();
  for (const auto op : {Operator::min, Operator::max}) {
    for (const T other : {T{1}, -infinity, infinity, T{0}, nan}) {
      CHECK(std::isnan(combined<T>(op, nan, other)));
      CHECK(std::isnan(combined<T>(op, other, nan)));
    }
  }
  CHECK(combined<T>(Operator::min, -infinity, infinity) == -infinity);
  CHECK(combined<T>(Operator::max, -infinity, infinity) == infinity);
  // The same zero in either order.
  CHECK(std::signbit(combined<T>(Operator::min, T{0}, -T{0})));
  CHECK(std::signbit(combined<T>(Operator::min, -T{0}, T{0})));
  CHECK(!std::signbit(combined<T>(Operator::max, T{0}, -T{0})));
  CHECK(!std::signbit(combined<T>(Operator::max, -T{0}, T{0})));
  CHECK(combined<T>(Operator::min, T{-2}, T{1}) == T{-2});
  CHECK(combined<T>(Operator::max, T{-2}, T{1}) == T{1});
  CHECK(std::isnan(combined<T>(Operator::sum, infinity, -infinity)));
  CHECK(combined<T>(Operator::sum, std::numeric_limits<T>::max(), std::numeric_limits<T>::max()) ==
        infinity);
  CHECK(divided<T>(7, 2) == T{3.5});
  CHECK(divided<T>(1, 3) == T{1} / T{3});
}

}  // namespace

TEST_CASE("small numbers combine alike in every type") {
  check_small_numbers<std::int8_t>();
  check_small_numbers<std::uint8_t>();
  check_small_numbers<std::int16_t>();
  check_small_numbers<std::uint16_t>();
  check_small_numbers<std::int32_t>();
  check_small_numbers<std::uint32_t>();
  check_small_numbers<std::int64_t>();
  check_small_numbers<std::uint64_t>();
  check_small_numbers<float>();
  check_small_numbers<double>();
}

TEST_CASE("integers wrap") {
  check_wrapping<std::int8_t>();
  check_wrapping<std::uint8_t>();
  check_wrapping<std::int16_t>();
  check_wrapping<std::uint16_t>();
  check_wrapping<std::int32_t>();
  check_wrapping<std::uint32_t>();
  check_wrapping<std::int64_t>();
  check_wrapping<std::uint64_t>();
}

TEST_CASE("negative integers combine, and averages truncate toward zero") {
  check_signed<std::int8_t>();
  check_signed<std::int16_t>();
  check_signed<std::int32_t>();
  check_signed<std::int64_t>();
  CHECK(divided<std::uint8_t>(255, 2) == 127);
  CHECK(divided<std::uint64_t>(UINT64_MAX, 2) == UINT64_MAX / 2);
}

TEST_CASE("NaN wins in min and max, infinities and zeros have an order") {
  check_floating<float>();
  check_floating<double>();
}

TEST_CASE("exactly the reducible combinations have a function") {
  std::size_t defined = 0;
  for (int type = 0; type < type_count; ++type) {
    for (int op = 0; op < operator_count; ++op) {
      const bool expected = reducible(Type(type), Operator(op));
      defined += expected ? 1 : 0;
      for (const auto set : instruction_sets()) {
        CHECK((reduce_function(Type(type), Operator(op), set) != nullptr) == expected);
        CHECK((combine_function(Type(type), Operator(op), set) != nullptr) == expected);
      }
      CHECK((reduce_function(Type(type), Operator(op)) != nullptr) == expected);
      CHECK((combine_function(Type(type), Operator(op)) != nullptr) == expected);
    }
  }
  CHECK(defined == 8 * 11 + 4 * 6 + 2 * 4 + 10);
  CHECK(reduce_function(Type{type_count}, Operator::sum) == nullptr);
  CHECK(combine_function(Type::u8, Operator{operator_count}) == nullptr);
}

TEST_CASE("bitwise operators combine integers") {
  CHECK(combined<std::uint8_t>(Operator::bit_and, 0b1100, 0b1010) == 0b1000);
  CHECK(combined<std::int32_t>(Operator::bit_or, 0b1100, 0b1010) == 0b1110);
  CHECK(combined<std::uint64_t>(Operator::bit_xor, 0b1100, 0b1010) == 0b0110);
}

TEST_CASE("logical operators combine truth values to 0 and 1") {
  for (const auto& [a, b] : {std::pair{0, 0}, {0, 7}, {-1, 0}, {2, 4}}) {
    CHECK(combined<std::int32_t>(Operator::logical_and, a, b) == (a != 0 && b != 0 ? 1 : 0));
    CHECK(combined<std::int32_t>(Operator::logical_or, a, b) == (a != 0 || b != 0 ? 1 : 0));
    CHECK(combined<std::int32_t>(Operator::logical_xor, a, b) == ((a != 0) != (b != 0) ? 1 : 0));
  }
}

TEST_CASE("of bool, sums and maxima are or, products and minima are and") {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      for (const auto op : {sum, max, bit_or, logical_or}) CHECK(combined(op, a, b) == (a || b));
      for (const auto op : {product, min, bit_and, logical_and}) {
        CHECK(combined(op, a, b) == (a && b));
      }
      for (const auto op : {bit_xor, logical_xor}) CHECK(combined(op, a, b) == (a != b));
    }
  }
}

TEST_CASE("the best instruction set is used") {
  REQUIRE(!instruction_sets().empty());
  CHECK(instruction_sets().front() == InstructionSet::baseline);
  CHECK(reduce_function(Type::f16, Operator::sum) ==
        reduce_function(Type::f16, Operator::sum, instruction_sets().back()));
  if (instruction_sets().size() == 1)
    WARN("this machine has but the baseline: only that is tested");
}

TEST_CASE("types without arithmetic are not divided") {
  std::byte untouched{42};
  divide(&untouched, 1, Type::f8e4m3, 2);
  CHECK(untouched == std::byte{42});
}

TEST_CASE("many elements, at any address, in place") {
  constexpr std::size_t count = 1001;
  // One byte off any alignment.
  std::vector<std::byte> a(count * 8 + 1);
  std::vector<std::byte> b(count * 8 + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const auto left = static_cast<double>(i);
    const auto right = static_cast<double>(3 * i) + 0.5;
    std::memcpy(a.data() + 1 + 8 * i, &left, 8);
    std::memcpy(b.data() + 1 + 8 * i, &right, 8);
  }
  weigh(a.data() + 1, a.data() + 1, count, Type::f64, average_weight(2));
  weigh(b.data() + 1, b.data() + 1, count, Type::f64, average_weight(2));
  reduce_function(Type::f64, Operator::sum)(a.data() + 1, a.data() + 1, b.data() + 1, count);
  divide(a.data() + 1, count, Type::f64, 2);
  for (std::size_t i = 0; i < count; ++i) {
    double value = 0;
    std::memcpy(&value, a.data() + 1 + 8 * i, 8);
    REQUIRE(value == static_cast<double>(2 * i) + 0.25);
  }
  CHECK(a[0] == std::byte{0});
}

template <class T>
void check_averages_of_extremes() {
  constexpr auto most = std::numeric_limits<T>::max();
  constexpr auto infinity = std::numeric_limits<T>::infinity();
  const auto type = TypeOf<T>::value;
  for (const auto set : instruction_sets()) {
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 9, 33, 1000, 4096}) {
      const auto average = [&](T each, T first) {
        std::vector<T> value(17, first);
        std::vector<T> next(17, each);
        auto* const to = std::as_writable_bytes(std::span(value)).data();
        auto* const from = std::as_writable_bytes(std::span(next)).data();
        const auto weight = average_weight(static_cast<std::size_t>(ranks));
        weigh(to, to, value.size(), type, weight, set);
        weigh(from, from, next.size(), type, weight, set);
        for (int rank = 1; rank < ranks; ++rank) {
          reduce_function(type, Operator::average, set)(to, to, from, value.size());
        }
        divide(to, value.size(), type, ranks, set);
        for (const T other : value) CHECK((other == value[0] || std::isnan(value[0])));
        return value[0];
      };
      CAPTURE(ranks);
      const T close = std::numeric_limits<T>::epsilon() * static_cast<T>(ranks);
      CHECK(std::isfinite(average(most, most)));
      CHECK(average(most, most) >= most * (1 - close));
      CHECK(average(-most, -most) <= -most * (1 - close));
      CHECK(average(3, 3) == T{3});
      CHECK(average(1, infinity) == infinity);
      CHECK(average(most, -infinity) == -infinity);
      if (ranks > 1) CHECK(std::isnan(average(infinity, -infinity)));
      CHECK(std::isnan(average(1, std::numeric_limits<T>::quiet_NaN())));
      // With one rank nothing is lost.
      if (ranks == 1)
        CHECK(average(0, std::numeric_limits<T>::denorm_min()) ==
              std::numeric_limits<T>::denorm_min());
    }
  }
}

TEST_CASE("an average of finite numbers is finite, and one of infinities is not") {
  check_averages_of_extremes<float>();
  check_averages_of_extremes<double>();
}

TEST_CASE("no elements, no change") {
  std::byte untouched{42};
  reduce_function(Type::u8, Operator::sum)(&untouched, &untouched, &untouched, 0);
  divide(&untouched, 0, Type::u8, 2);
  CHECK(untouched == std::byte{42});
}

}  // namespace tutti::engine::test
