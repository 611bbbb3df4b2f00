// Which algorithm is chosen, and names that are not known.
#include <algorithm>

#include "problems.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

bool has(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::int64_t mib = std::int64_t{1} << 20;

}  // namespace

TEST_CASE("what is chosen exists and makes a schedule of that name") {
  for (const int size : {1, 2, 3, 16, 1000}) {
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{4}, mib, 1024 * mib}) {
      const Problem problem{.rank = 0,
                            .size = size,
                            .root = 0,
                            .count = bytes,
                            .chunk = 1024,
                            .in_place = true,
                            .host = {}};
      CHECK(has(fan_out_algorithms(), choose_fan_out(size, bytes)));
      CHECK(has(broadcast_algorithms(), choose_broadcast(size, bytes)));
      CHECK(has(all_reduce_algorithms(), choose_all_reduce(size, bytes)));
      CHECK(has(barrier_algorithms(), choose_barrier(size)));
      const std::string_view name = choose_broadcast(size, bytes);
      CHECK(make_broadcast(name, problem).algorithm == name);
    }
  }
}

TEST_CASE("small buffers take few rounds, large ones a pipeline") {
  CHECK(choose_broadcast(4, 4) == "binomial");
  CHECK(choose_broadcast(4, 64 * mib) == "chain");
  CHECK(choose_broadcast(2, 64 * mib) == "direct");
  CHECK(choose_all_reduce(4, 4) == "recursive_doubling");
  CHECK(choose_all_reduce(4, 64 * mib) == "ring");
  // A hop a rank is too much for a buffer that gives each rank a few bytes.
  CHECK(choose_broadcast(4096, mib) == "binomial");
  CHECK(choose_all_reduce(4096, mib) == "recursive_doubling");
}

TEST_CASE("every schedule bears the name it was asked for by") {
  const Problem problem{
      .rank = 0, .size = 4, .root = 0, .count = 9, .chunk = 2, .in_place = true, .host = {}};
  for (const auto name : fan_out_algorithms()) CHECK(make_fan_out(name, problem).algorithm == name);
  for (const auto name : broadcast_algorithms())
    CHECK(make_broadcast(name, problem).algorithm == name);
  for (const auto name : all_reduce_algorithms())
    CHECK(make_all_reduce(name, problem).algorithm == name);
  for (const auto name : barrier_algorithms()) CHECK(make_barrier(name, problem).algorithm == name);
}

TEST_CASE("an unknown name is refused with the names that are known") {
  const Problem problem;
  try {
    static_cast<void>(make_all_reduce("rings", problem));
    FAIL("was accepted");
  } catch (const std::invalid_argument& error) {
    CHECK(std::string(error.what()) ==
          "all_reduce has no algorithm \"rings\"; it has recursive_doubling, ring");
  }
  CHECK_THROWS_AS(make_broadcast("", problem), std::invalid_argument);
  CHECK_THROWS_AS(make_barrier("ring", problem), std::invalid_argument);
  CHECK_THROWS_AS(make_fan_out("chain", problem), std::invalid_argument);
}

}  // namespace tutti::algorithm::test
