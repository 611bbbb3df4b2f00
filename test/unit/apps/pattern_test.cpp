#include "pattern.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "number.hpp"
#include "support/catch.hpp"

namespace tutti::app {
namespace {

CallSpec spec_of(Operation operation, Type type, Operator op, int ranks) {
  return {.operation = operation, .type = type, .op = op, .count = 100, .ranks = ranks};
}

std::vector<double> values_of(const Pattern& pattern, Type type, std::size_t first,
                              std::size_t count) {
  std::vector<std::byte> bytes(count * size_of(type));
  pattern.fill(bytes.data(), first, count);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(value_of(type, &bytes[i * size_of(type)]));
  }
  return values;
}

double combine(Operator op, double a, double b) {
  switch (op) {
    case Operator::product:
      return a * b;
    case Operator::min:
      return std::min(a, b);
    case Operator::max:
      return std::max(a, b);
    default:
      return a + b;
  }
}

}  // namespace

TEST_CASE("numbers are encoded in the formats of the types") {
  const auto bits = [](Type type, std::int64_t number) {
    // The first 8 bytes; a complex number's imaginary part may lie behind them.
    std::uint64_t result = 0;
    std::array<std::byte, 16> element{};
    encode(type, number, element.data());
    std::memcpy(&result, element.data(), std::min(size_of(type), sizeof result));
    return result;
  };
  // From the formats' definitions: IEEE 754 binary16, its relatives, and OCP's 8-bit floats.
  CHECK(bits(Type::f16, 1) == 0x3C00);
  CHECK(bits(Type::f16, -2) == 0xC000);
  CHECK(bits(Type::f16, 2047) == 0x67FF);
  CHECK(bits(Type::bf16, 1) == 0x3F80);
  CHECK(bits(Type::bf16, -255) == 0xC37F);
  CHECK(bits(Type::f8e4m3, 1) == 0x38);
  CHECK(bits(Type::f8e4m3, 15) == 0x57);
  CHECK(bits(Type::f8e4m3, -64) == 0xE8);
  CHECK(bits(Type::f8e5m2, 1) == 0x3C);
  CHECK(bits(Type::f8e5m2, 7) == 0x47);
  CHECK(bits(Type::f32, -3) == 0xC0400000);
  CHECK(bits(Type::i8, -1) == 0xFF);
  CHECK(bits(Type::u64, -1) == UINT64_MAX);
  for (int type = 0; type < type_count; ++type) CHECK(bits(static_cast<Type>(type), 0) == 0);
}

TEST_CASE("values are decoded unchanged") {
  for (int index = 0; index < type_count; ++index) {
    const auto type = static_cast<Type>(index);
    const std::int64_t most = std::int64_t{1} << std::min(precision_of(type) - 1, 20);
    for (std::int64_t number = is_signed(type) ? -most + 1 : 0; number < most; ++number) {
      std::array<std::byte, 16> element{};
      if (is_complex(type)) {
        encode(type, complex_of(number, -number), element.data());
        const auto part = part_of(type);
        REQUIRE(value_of(part, element.data() + size_of(part)) == static_cast<double>(-number));
      } else {
        encode(type, number, element.data());
      }
      REQUIRE(value_of(type, element.data()) == static_cast<double>(number));
    }
  }
}

TEST_CASE("special values have a text") {
  const auto text = [](Type type, std::uint64_t bits) {
    std::array<std::byte, 16> element{};
    std::memcpy(element.data(), &bits, sizeof bits);
    return value_text(type, element.data());
  };
  CHECK(text(Type::f16, 0x7C00) == "inf");
  CHECK(text(Type::f16, 0x7C01) == "nan");
  CHECK(text(Type::f16, 0x0001) == "5.96046448e-08");
  CHECK(text(Type::bf16, 0xFF80) == "-inf");
  CHECK(text(Type::f8e4m3, 0x7E) == "448");
  CHECK(text(Type::f8e4m3, 0x7F) == "nan");
  CHECK(text(Type::f8e4m3, 0x01) == "0.001953125");
  CHECK(text(Type::f8e5m2, 0x7C) == "inf");
  CHECK(text(Type::i8, 0x80) == "-128");
  CHECK(text(Type::u64, UINT64_MAX) == "18446744073709551615");
  CHECK(text(Type::f64, 0) == "0");
  CHECK(text(Type::i16, 0x8000) == "-32768");
  CHECK(text(Type::u16, 0xFFFF) == "65535");
  CHECK(text(Type::boolean, 1) == "1");
  CHECK(text(Type::c64, 0xC0000000'3F800000) == "1-2i");
  CHECK(text(Type::c128, 0) == "0+0i");
}

TEST_CASE("floats reduce to exact values in any order") {
  for (const auto type :
       {Type::f16, Type::bf16, Type::f32, Type::f64, Type::f8e4m3, Type::f8e5m2}) {
    for (const auto op :
         {Operator::sum, Operator::product, Operator::min, Operator::max, Operator::average}) {
      for (const int ranks : {1, 2, 3, 5, 8, 13, 64}) {
        const auto spec = spec_of(Operation::all_reduce, type, op, ranks);
        std::vector<std::vector<double>> parts;
        for (int rank = 0; rank < ranks; ++rank) {
          parts.push_back(values_of(Pattern::of_rank(spec, rank, 100), type, 0, 100));
        }
        const auto due = values_of(Pattern::reduced(spec, 100), type, 0, 100);
        // The largest intermediate result of any order must be exact.
        const double most = std::ldexp(1.0, op == Operator::product ? 6 : precision_of(type));
        for (std::size_t i = 0; i < 100; ++i) {
          double total = parts[0][i];
          double magnitude = std::abs(total);
          for (std::size_t rank = 1; rank < parts.size(); ++rank) {
            total = combine(op, total, parts[rank][i]);
            magnitude = combine(op == Operator::min ? Operator::max : op, magnitude,
                                std::abs(parts[rank][i]));
          }
          if (op == Operator::average) total /= ranks;
          INFO(name(type) << " " << name(op) << " " << ranks << " ranks, element " << i);
          REQUIRE(magnitude <= most);
          REQUIRE(due[i] == total);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("integers reduce as C++ does, wrapping around", "", std::int8_t, std::uint8_t,
                   std::int16_t, std::uint16_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t) {
  using T = TestType;
  using U = std::make_unsigned_t<T>;
  constexpr auto type = TypeOf<T>::value;
  for (int index = 0; index < operator_count; ++index) {
    const auto op = static_cast<Operator>(index);
    if (!reducible(type, op)) continue;
    for (const int ranks : {1, 2, 3, 8, 300}) {
      const auto spec = spec_of(Operation::all_reduce, type, op, ranks);
      std::vector<T> total(50);
      std::vector<T> part(50);
      Pattern::of_rank(spec, 0, 50).fill(reinterpret_cast<std::byte*>(total.data()), 0, 50);
      for (int rank = 1; rank < ranks; ++rank) {
        Pattern::of_rank(spec, rank, 50).fill(reinterpret_cast<std::byte*>(part.data()), 0, 50);
        for (std::size_t i = 0; i < 50; ++i) {
          const auto a = static_cast<std::uint64_t>(total[i]);
          const auto b = static_cast<std::uint64_t>(part[i]);
          switch (op) {
            case Operator::product:
              total[i] = static_cast<T>(static_cast<U>(a * b));
              break;
            case Operator::min:
              total[i] = std::min(total[i], part[i]);
              break;
            case Operator::max:
              total[i] = std::max(total[i], part[i]);
              break;
            case Operator::bit_and:
              total[i] = static_cast<T>(a & b);
              break;
            case Operator::bit_or:
              total[i] = static_cast<T>(a | b);
              break;
            case Operator::bit_xor:
              total[i] = static_cast<T>(a ^ b);
              break;
            case Operator::logical_and:
              total[i] = a != 0 && b != 0 ? 1 : 0;
              break;
            case Operator::logical_or:
              total[i] = a != 0 || b != 0 ? 1 : 0;
              break;
            case Operator::logical_xor:
              total[i] = (a != 0) != (b != 0) ? 1 : 0;
              break;
            default:
              total[i] = static_cast<T>(static_cast<U>(a + b));
          }
        }
      }
      if (op == Operator::average) {
        for (auto& value : total) {
          if constexpr (std::is_signed_v<T>) {
            value = static_cast<T>(static_cast<std::int64_t>(value) / ranks);
          } else {
            value = static_cast<T>(static_cast<std::uint64_t>(value) /
                                   static_cast<std::uint64_t>(ranks));
          }
        }
      }
      CheckResult wrong;
      Pattern::reduced(spec, 50).compare(reinterpret_cast<std::byte*>(total.data()), 0, 50, 0,
                                         wrong);
      INFO(name(type) << " " << name(op) << " " << ranks << " ranks: " << wrong.first);
      CHECK(wrong.elements == 0);
    }
  }
}

namespace {

template <class T>
std::vector<T> elements_of(const Pattern& pattern, std::size_t count) {
  std::vector<T> elements(count);
  pattern.fill(reinterpret_cast<std::byte*>(elements.data()), 0, count);
  return elements;
}

template <class T>
void check_complex(Operator op, int ranks) {
  const auto spec = spec_of(Operation::all_reduce, TypeOf<T>::value, op, ranks);
  std::vector<T> total;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto part = elements_of<T>(Pattern::of_rank(spec, rank, 100), 100);
    const double factor = op == Operator::premultiplied_sum ? factor_of(rank) : 1;
    if (rank == 0) total.assign(100, op == Operator::product ? T(1) : T(0));
    for (std::size_t i = 0; i < 100; ++i) {
      const auto term = part[i] * static_cast<typename T::value_type>(factor);
      total[i] = op == Operator::product ? total[i] * part[i] : total[i] + term;
    }
  }
  if (op == Operator::average) {
    for (auto& value : total) value /= static_cast<typename T::value_type>(ranks);
  }
  CheckResult wrong;
  Pattern::reduced(spec, 100).compare(reinterpret_cast<std::byte*>(total.data()), 0, 100, 0, wrong);
  INFO(name(spec.type) << " " << name(op) << " " << ranks << " ranks: " << wrong.first);
  CHECK(wrong.elements == 0);
  // The imaginary parts matter, too.
  auto changed = total;
  changed[7] += T(0, 1);
  Pattern::reduced(spec, 100).compare(reinterpret_cast<std::byte*>(changed.data()), 0, 100, 0,
                                      wrong);
  CHECK(wrong.elements == 1);
}

}  // namespace

TEST_CASE("complex numbers reduce to exact values") {
  for (const auto op : {sum, product, average, Operator::premultiplied_sum}) {
    for (const int ranks : {1, 2, 3, 8, 64}) {
      check_complex<std::complex<float>>(op, ranks);
      check_complex<std::complex<double>>(op, ranks);
    }
  }
}

TEST_CASE("bool reduces to or, and, xor") {
  for (int index = 0; index < operator_count; ++index) {
    const auto op = static_cast<Operator>(index);
    if (!reducible(Type::boolean, op)) continue;
    const auto spec = spec_of(Operation::all_reduce, Type::boolean, op, 3);
    std::vector<std::uint8_t> total;
    bool differ = false;
    for (int rank = 0; rank < 3; ++rank) {
      const auto part = elements_of<std::uint8_t>(Pattern::of_rank(spec, rank, 100), 100);
      if (rank == 0) total = part;
      for (std::size_t i = 0; i < 100 && rank > 0; ++i) {
        REQUIRE(part[i] <= 1);
        differ = differ || part[i] != total[i];
        if (op == sum || op == max || op == bit_or || op == logical_or) total[i] |= part[i];
        if (op == product || op == min || op == bit_and || op == logical_and) total[i] &= part[i];
        if (op == bit_xor || op == logical_xor) total[i] ^= part[i];
      }
    }
    CheckResult wrong;
    Pattern::reduced(spec, 100).compare(reinterpret_cast<std::byte*>(total.data()), 0, 100, 0,
                                        wrong);
    INFO(name(op) << ": " << wrong.first);
    CHECK(wrong.elements == 0);
    CHECK(differ);
  }
}

TEST_CASE("premultiplied sums are exact in any order") {
  for (const auto type : {Type::f16, Type::bf16, Type::f32, Type::f64}) {
    for (const int ranks : {1, 2, 3, 8, 64, 300}) {
      const auto spec = spec_of(Operation::all_reduce, type, Operator::premultiplied_sum, ranks);
      std::vector<double> total(100);
      std::vector<double> magnitude(100);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto part = values_of(Pattern::of_rank(spec, rank, 100), type, 0, 100);
        for (std::size_t i = 0; i < total.size(); ++i) {
          total[i] += part[i] * factor_of(rank);
          magnitude[i] += std::abs(part[i] * factor_of(rank));
        }
      }
      INFO(name(type) << " " << ranks << " ranks");
      CHECK(total == values_of(Pattern::reduced(spec, 100), type, 0, 100));
      CHECK(*std::max_element(magnitude.begin(), magnitude.end()) <=
            std::ldexp(1.0, precision_of(type)));
    }
  }
}

TEST_CASE("for other libraries integer sums do not overflow") {
  for (const auto type : {Type::i8, Type::u8, Type::i32}) {
    for (const int ranks : {1, 3, 8, 300}) {
      auto spec = spec_of(Operation::all_reduce, type, Operator::sum, ranks);
      spec.wraps = false;
      std::vector<double> total(100);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto part = values_of(Pattern::of_rank(spec, rank, 100), type, 0, 100);
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += part[i];
      }
      INFO(name(type) << " " << ranks << " ranks");
      CHECK(total == values_of(Pattern::reduced(spec, 100), type, 0, 100));
    }
  }
}

TEST_CASE("a sum without a rank, or with one twice, is detected") {
  for (int index = 0; index < type_count; ++index) {
    const auto type = static_cast<Type>(index);
    for (const auto op : {Operator::sum, Operator::product, Operator::average}) {
      if (type == Type::boolean && !reducible(type, op)) continue;
      const auto spec = spec_of(Operation::all_reduce, type, op, 4);
      int telling = 0;
      const auto last = values_of(Pattern::of_rank(spec, 3, 1000), type, 0, 1000);
      const double neutral = op == Operator::product ? 1 : 0;
      for (const double value : last) telling += value != neutral ? 1 : 0;
      INFO(name(type) << " " << name(op));
      // Enough elements differ from the neutral value to show the error.
      CHECK(telling > (type == Type::boolean ? 60 : 300));
    }
  }
}

TEST_CASE("every changed element is counted and the first is described") {
  const auto spec = spec_of(Operation::broadcast, Type::i32, Operator::sum, 2);
  const auto pattern = Pattern::of_rank(spec, 0, 200'000);
  std::vector<std::byte> data(200'000 * 4);
  pattern.fill(data.data(), 0, 200'000);
  CheckResult none;
  pattern.compare(data.data(), 0, 200'000, 0, none);
  CHECK(none.elements == 0);
  CHECK(none.first.empty());
  for (const std::size_t at : {0U, 65'520U, 65'521U, 131'072U, 199'999U}) {
    auto changed = data;
    changed[at * 4 + 3] ^= std::byte{1};
    CheckResult wrong;
    pattern.compare(changed.data(), 0, 200'000, 1000, wrong);
    CHECK(wrong.elements == 1);
    CHECK(wrong.first.starts_with("element " + std::to_string(at + 1000) + " is "));
    CHECK(wrong.first.find(", expected ") != std::string::npos);
  }
}

TEST_CASE("data of another rank or another offset is detected") {
  const auto spec = spec_of(Operation::all_gather, Type::u8, Operator::sum, 4);
  constexpr std::size_t count = 1 << 18;
  const auto pattern = Pattern::of_rank(spec, 0, 2 * count);
  std::vector<std::byte> data(count);
  CheckResult wrong;
  Pattern::of_rank(spec, 1, 2 * count).fill(data.data(), 0, count);
  pattern.compare(data.data(), 0, count, 0, wrong);
  CHECK(wrong.elements > count * 9 / 10);
  // Chunks and blocks are powers of two, or multiples of such.
  for (const std::size_t shift : {1U, 4096U, 65'536U, 196'608U, 262'144U}) {
    wrong = {};
    pattern.fill(data.data(), shift, count);
    pattern.compare(data.data(), 0, count, 0, wrong);
    CHECK(wrong.elements > count * 9 / 10);
  }
}

TEST_CASE("only NCCL's average of floats over odd ranks may round") {
  auto spec = spec_of(Operation::all_reduce, Type::f32, Operator::average, 3);
  const auto differs = [](const CallSpec& of, std::int64_t by) {
    const auto pattern = Pattern::reduced(of, 10);
    std::array<std::byte, 40> data{};
    pattern.fill(data.data(), 0, 10);
    const auto value = static_cast<std::int64_t>(value_of(Type::f32, data.data()));
    encode(Type::f32, value + by, data.data());
    CheckResult wrong;
    pattern.compare(data.data(), 0, 10, 0, wrong);
    return wrong.elements;
  };
  CHECK(differs(spec, 1) == 1);
  spec.on_nccl = true;
  CHECK(differs(spec, 1) == 0);
  CHECK(differs(spec, 100) == 1);
  spec.ranks = 4;
  CHECK(differs(spec, 1) == 1);
  spec.ranks = 3;
  spec.op = Operator::sum;
  CHECK(differs(spec, 1) == 1);
}

}  // namespace tutti::app
