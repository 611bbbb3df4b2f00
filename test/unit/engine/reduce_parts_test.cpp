// Reductions of many parts in one pass.
#include <algorithm>
#include <span>
#include <vector>

#include "reduce_reference.hpp"
#include "support/catch.hpp"
#include "support/random_seed.hpp"

namespace tutti::engine::test {
namespace {

/// Random parts and their expected result.
struct Parts {
  std::vector<std::vector<Bits>> elements;
  std::vector<Bits> expected;

  Parts(Type type, Operator op, std::size_t count, std::size_t length, std::mt19937_64& random)
      : expected(length) {
    for (std::size_t k = 0; k < count; ++k) {
      elements.push_back(random_elements(type, length, random));
    }
    std::vector<Bits> column(count);
    for (std::size_t i = 0; i < length; ++i) {
      for (std::size_t k = 0; k < count; ++k) column[k] = elements[k][i];
      expected[i] = reference_combine(type, op, column);
    }
  }
};

struct Layout {
  std::size_t gap = 0;     // bytes between parts
  std::size_t offset = 0;  // of the parts and, unless aliased, of `to`
  int alias = -1;          // the part that `to` is, or -1
};

/// Combines the first `length` elements of each part.
void check_call(const Comparison& compare, const Parts& parts, std::size_t length,
                const Layout& layout) {
  const auto count = parts.elements.size();
  const auto size = length * size_of(compare.type);
  const auto stride = size + layout.gap;
  Buffer from(count * stride, layout.offset);
  Buffer apart(size, (3 * layout.offset + 5) % 16);
  const auto first = [length](const auto& all) { return std::span(all).first(length); };
  for (std::size_t k = 0; k < count; ++k) {
    write(compare.type, first(parts.elements[k]), from.data() + k * stride);
  }
  auto* const to = layout.alias < 0 ? apart.data()
                                    : from.data() + static_cast<std::size_t>(layout.alias) * stride;
  const std::vector before(from.data(), from.data() + count * stride);
  combine_function(compare.type, compare.op, compare.set)(to, from.data(), stride, count, length);
  compare.check(first(parts.expected), to);
  // Everything but the result is unchanged.
  std::vector after(from.data(), from.data() + count * stride);
  if (layout.alias >= 0) {
    const auto at = static_cast<std::size_t>(layout.alias) * stride;
    std::copy_n(before.data() + at, size, after.data() + at);
  }
  if (before != after || !from.intact() || !apart.intact()) {
    FAIL(name(compare.type) << ' ' << name(compare.op) << " of " << count << " parts of " << length
                            << " elements wrote outside of its result");
  }
}

}  // namespace

TEST_CASE("parts combine to the same bits at every address, length and alias") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  constexpr std::size_t longest = 130;
  for_each_reduction([&](Type type, Operator op) {
    for (const std::size_t count : {1U, 2U, 3U, 5U, 8U, 9U, 17U}) {
      const Parts parts(type, op, count, longest, random);
      for (std::size_t length = 0; length <= longest; ++length) {
        const Layout layout{.gap = random() % 4,
                            .offset = random() % 16,
                            .alias = static_cast<int>(random() % (count + 1)) - 1};
        for (const auto set : instruction_sets()) {
          check_call({"combine", type, op, set}, parts, length, layout);
        }
      }
    }
  });
}

TEST_CASE("long parts combine to the same bits as short ones") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for_each_reduction([&](Type type, Operator op) {
    for (const std::size_t count : {9U, 33U}) {
      const std::size_t length = 5003 / size_of(type);
      const Parts parts(type, op, count, length, random);
      for (const int alias : {-1, 0, static_cast<int>(count / 2), static_cast<int>(count) - 1}) {
        const Layout layout{.gap = 1, .offset = random() % 16, .alias = alias};
        for (const auto set : instruction_sets()) {
          check_call({"combine", type, op, set}, parts, length, layout);
        }
      }
    }
  });
}

}  // namespace tutti::engine::test
