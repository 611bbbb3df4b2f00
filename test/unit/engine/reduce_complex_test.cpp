// Reductions of complex numbers against those of their real and imaginary parts.
#include <complex>
#include <cstring>
#include <vector>

#include "reduce_reference.hpp"
#include "support/catch.hpp"
#include "support/random_seed.hpp"

namespace tutti::engine::test {
namespace {

constexpr std::size_t parts = 3;
constexpr std::size_t longest = 131;

/// Random bits and special values as parts.
std::vector<std::byte> random_complex(Type part, std::mt19937_64& random) {
  std::vector<std::byte> bytes(2 * parts * longest * size_of(part));
  write(part, random_elements(part, 2 * parts * longest, random), bytes.data());
  return bytes;
}

/// The formula, without contraction to fused multiply-add; NaN is the positive quiet one.
template <class T>
std::complex<T> product_of(std::complex<T> a, std::complex<T> b) {
  const volatile T aa = a.real() * b.real();
  const volatile T bb = a.imag() * b.imag();
  const volatile T ab = a.real() * b.imag();
  const volatile T ba = a.imag() * b.real();
  const auto quiet = [](T value) {
    return value == value ? value : std::numeric_limits<T>::quiet_NaN();  // NOLINT
  };
  return {quiet(aa - bb), quiet(ab + ba)};
}

template <class T>
void check_products(std::mt19937_64& random, InstructionSet set) {
  constexpr auto type = TypeOf<std::complex<T>>::value;
  const auto bytes = random_complex(TypeOf<T>::value, random);
  std::vector<std::complex<T>> values(parts * longest);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  for (std::size_t length = 0; length <= longest; ++length) {
    Buffer to(length * size_of(type), length % 16);
    const auto* const second = bytes.data() + longest * size_of(type);
    reduce_function(type, product, set)(to.data(), bytes.data(), second, length);
    for (std::size_t i = 0; i < length; ++i) {
      const auto due = product_of(values[i], values[longest + i]);
      if (std::memcmp(to.data() + i * sizeof due, &due, sizeof due) != 0) {
        FAIL(name(type) << " by set " << int(set) << ": product " << i << " of " << length);
      }
    }
    combine_function(type, product, set)(to.data(), bytes.data(), longest * size_of(type), parts,
                                         length);
    for (std::size_t i = 0; i < length; ++i) {
      const auto due =
          product_of(product_of(values[i], values[longest + i]), values[2 * longest + i]);
      if (std::memcmp(to.data() + i * sizeof due, &due, sizeof due) != 0) {
        FAIL(name(type) << " by set " << int(set) << ": product of three " << i << " of "
                        << length);
      }
    }
    if (!to.intact()) FAIL("a product of " << name(type) << " wrote outside");
  }
}

/// Sums and factors act on the parts.
void check_sums(Type type, Type part, std::mt19937_64& random, InstructionSet set) {
  const auto bytes = random_complex(part, random);
  const auto stride = longest * size_of(type);
  for (std::size_t length = 0; length <= longest; ++length) {
    const auto size = length * size_of(type);
    const auto compare = [&](const char* what, auto act) {
      Buffer whole(size, length % 16);
      Buffer apart(size, (length + 5) % 16);
      act(whole.data(), type, length);
      act(apart.data(), part, 2 * length);
      if (std::memcmp(whole.data(), apart.data(), size) != 0 || !whole.intact()) {
        FAIL(what << " of " << length << ' ' << name(type) << " by set " << int(set));
      }
    };
    for (const auto op : {Operator::sum, Operator::average, Operator::premultiplied_sum}) {
      compare("sum", [&](std::byte* to, Type of, std::size_t count) {
        reduce_function(of, op, set)(to, bytes.data(), bytes.data() + stride, count);
      });
      compare("sum of three", [&](std::byte* to, Type of, std::size_t count) {
        combine_function(of, op, set)(to, bytes.data(), stride, parts, count);
      });
    }
    compare("factor", [&](std::byte* to, Type of, std::size_t count) {
      weigh(to, bytes.data(), count, of, 0.3, set);
    });
    compare("average", [&](std::byte* to, Type of, std::size_t count) {
      std::memcpy(to, bytes.data(), count * size_of(of));
      divide(to, count, of, 3, set);
    });
  }
}

}  // namespace

TEST_CASE("complex sums, averages and factors are those of the parts") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const auto set : instruction_sets()) {
    check_sums(Type::c64, Type::f32, random, set);
    check_sums(Type::c128, Type::f64, random, set);
  }
}

TEST_CASE("complex products are those of the formula, bit by bit, with every instruction set") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const auto set : instruction_sets()) {
    check_products<float>(random, set);
    check_products<double>(random, set);
  }
}

}  // namespace tutti::engine::test
