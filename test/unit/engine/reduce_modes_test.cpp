// Reductions on a thread with a non-default floating-point control register.
#include <vector>

#include "reduce_reference.hpp"
#include "support/catch.hpp"
#include "support/float_controls.hpp"
#include "support/random_seed.hpp"

namespace tutti::engine::test {
namespace {

using tutti::test::FloatControls;
using tutti::test::FloatMode;

constexpr std::size_t length = 1003;
constexpr std::size_t count = 9;

/// The bytes that all functions of a type and operator return.
std::vector<std::byte> results_of(Type type, Operator op, InstructionSet set,
                                  const std::vector<std::byte>& parts) {
  const auto bytes = length * size_of(type);
  std::vector<std::byte> results(5 * bytes);
  const auto result = [&](std::size_t i) { return results.data() + i * bytes; };
  reduce_function(type, op, set)(result(0), parts.data(), parts.data() + bytes, length);
  combine_function(type, op, set)(result(1), parts.data(), bytes, count, length);
  std::copy_n(parts.data(), bytes, result(2));
  divide(result(2), length, type, 3, set);
  if (is_weighed(type)) {
    weigh(result(3), parts.data(), length, type, average_weight(3), set);
    weigh(result(4), parts.data() + bytes, length, type, average_weight(4096), set);
  }
  return results;
}

}  // namespace

TEST_CASE("results do not depend on the thread's floating-point mode, which is restored") {
  const auto seed = tutti::test::random_seed();
  INFO("TUTTI_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for_each_reduction([&](Type type, Operator op) {
    std::vector<std::byte> parts(count * length * size_of(type));
    write(type, random_elements(type, count * length, random), parts.data());
    for (const auto set : instruction_sets()) {
      const auto expected = results_of(type, op, set, parts);
      for (const auto mode : {FloatMode::flushing, FloatMode::upward, FloatMode::trapping}) {
        bool are_as_set = false;
        std::vector<std::byte> found;
        {
          const FloatControls controls(mode);
          found = results_of(type, op, set, parts);
          are_as_set = controls.are_as_set();
        }
        if (found != expected || !are_as_set) {
          FAIL(name(type) << ' ' << name(op) << " by set " << int(set) << " in mode " << int(mode)
                          << (are_as_set ? "" : ": the control register changed"));
        }
      }
    }
  });
}

}  // namespace tutti::engine::test
