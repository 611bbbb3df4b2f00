// Reductions of two buffers, and division, compared with plain arithmetic: the same bits at each
// address, length and alias, with each instruction set.
#include <span>
#include <vector>

#include "reduce_reference.hpp"
#include "support/catch.hpp"
#include "support/random_seed.hpp"

namespace tutti::engine::test {
namespace {

enum class Alias { none, a, b };

std::vector<Bits> reduced(Type type, Operator op, std::span<const Bits> a,
                          std::span<const Bits> b) {
  std::vector<Bits> result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = reference_reduce(type, op, a[i], b[i]);
  return result;
}

/// One call with its buffers at `offset`.
void check_call(const Comparison& compare, std::span<const Bits> a, std::span<const Bits> b,
                std::span<const Bits> expected, std::size_t offset, Alias alias) {
  const auto size = a.size() * size_of(compare.type);
  Buffer left(size, (7 * offset + 3) % 16);
  Buffer right(size, (5 * offset + 1) % 16);
  Buffer apart(size, offset);
  write(compare.type, a, left.data());
  write(compare.type, b, right.data());
  auto& to = alias == Alias::a ? left : alias == Alias::b ? right : apart;
  reduce_function(compare.type, compare.op, compare.set)(to.data(), left.data(), right.data(),
                                                         a.size());
  compare.check(expected, to.data());
  if (alias != Alias::a) compare.check(a, left.data());
  if (alias != Alias::b) compare.check(b, right.data());
  if (!left.intact() || !right.intact() || !apart.intact()) {
    FAIL(name(compare.type) << ' ' << name(compare.op) << " of " << a.size()
                            << " elements wrote outside of its result");
  }
}

}  // namespace

TEST_CASE("a reduction gives the same bits at every address, length and alias") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  constexpr std::size_t longest = 130;
  for_each_reduction([&](Type type, Operator op) {
    const auto a = random_elements(type, longest, random);
    const auto b = random_elements(type, longest, random);
    const auto expected = reduced(type, op, a, b);
    for (std::size_t length = 0; length <= longest; ++length) {
      const auto some = [length](const auto& all) { return std::span(all).first(length); };
      for (std::size_t offset = 0; offset < 16; ++offset) {
        const auto alias = static_cast<Alias>((offset + length) % 3);
        for (const auto set : instruction_sets()) {
          check_call({"reduce", type, op, set}, some(a), some(b), some(expected), offset, alias);
        }
      }
    }
  });
}

TEST_CASE("reductions of many random elements are those of plain arithmetic") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for_each_reduction([&](Type type, Operator op) {
    const auto a = random_elements(type, 10007, random);
    const auto b = random_elements(type, 10007, random);
    const auto expected = reduced(type, op, a, b);
    for (const auto alias : {Alias::none, Alias::a, Alias::b}) {
      for (const auto set : instruction_sets()) {
        check_call({"reduce", type, op, set}, a, b, expected, 0, alias);
      }
    }
  });
}

TEST_CASE("a rank may combine its buffer with itself") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for_each_reduction([&](Type type, Operator op) {
    const auto a = random_elements(type, 1001, random);
    const auto expected = reduced(type, op, a, a);
    for (const auto set : instruction_sets()) {
      Buffer buffer(a.size() * size_of(type), 3);
      write(type, a, buffer.data());
      reduce_function(type, op, set)(buffer.data(), buffer.data(), buffer.data(), a.size());
      Comparison{"reduce with itself", type, op, set}.check(expected, buffer.data());
    }
  });
}

TEST_CASE("reductions that commute give the same bits either way") {
  // Ranks may combine the same two contributions in either order; all must get the same result.
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for_each_reduction([&](Type type, Operator op) {
    const auto a = random_elements(type, 3001, random);
    const auto b = random_elements(type, 3001, random);
    Buffer left(a.size() * size_of(type), 0);
    Buffer right(a.size() * size_of(type), 1);
    Buffer result(a.size() * size_of(type), 2);
    write(type, a, left.data());
    write(type, b, right.data());
    for (const auto set : instruction_sets()) {
      const auto reduce = reduce_function(type, op, set);
      reduce(result.data(), left.data(), right.data(), a.size());
      const auto expected = read(type, result.data(), a.size());
      reduce(result.data(), right.data(), left.data(), a.size());
      Comparison{"reduce the other way", type, op, set}.check(expected, result.data());
    }
  });
}

TEST_CASE("division is that of plain arithmetic at every address and length") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const auto type : reducible_types) {
    if (!reducible(type, Operator::average)) continue;
    for (const auto set : instruction_sets()) {
      for (const int ranks : {1, 2, 3, 7, 128, 300, 4096, 2147483647}) {
        const auto length = random() % 2 == 0 ? random() % 131 : 5003;
        const auto values = random_elements(type, length, random);
        std::vector<Bits> expected(length);
        for (std::size_t i = 0; i < length; ++i) {
          expected[i] = reference_divide(type, values[i], ranks);
        }
        Buffer buffer(length * size_of(type), random() % 16);
        write(type, values, buffer.data());
        divide(buffer.data(), length, type, ranks, set);
        Comparison{"divide", type, Operator::average, set}.check(expected, buffer.data());
        if (!buffer.intact()) FAIL("division of " << name(type) << " wrote outside");
      }
    }
  }
}

TEST_CASE(
    "contributions are multiplied by their factor, rounded once, at every address and length") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::vector<double> factors{0, -1, 1.0 / 3, 1e6, -0.37};
  for (const int ranks : {1, 2, 3, 7, 128, 300, 4096, 2147483647}) {
    factors.push_back(reference_weight(ranks));
    CHECK(average_weight(static_cast<std::size_t>(ranks)) == factors.back());
  }
  for (const auto type : {Type::f16, Type::bf16, Type::f32, Type::f64}) {
    for (const auto set : instruction_sets()) {
      for (const double factor : factors) {
        const auto length = random() % 2 == 0 ? random() % 131 : 5003;
        const auto values = random_elements(type, length, random);
        std::vector<Bits> expected(length);
        for (std::size_t i = 0; i < length; ++i) {
          expected[i] = reference_weigh(type, values[i], factor);
        }
        Buffer from(length * size_of(type), random() % 16);
        Buffer to(length * size_of(type), random() % 16);
        write(type, values, from.data());
        weigh(to.data(), from.data(), length, type, factor, set);
        Comparison{"weigh", type, Operator::premultiplied_sum, set}.check(expected, to.data());
        if (!to.intact()) FAIL("weighing of " << name(type) << " wrote outside");
      }
    }
  }
}

}  // namespace tutti::engine::test
