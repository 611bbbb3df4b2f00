// Broadcast and fan-out: every algorithm, size and count, and every root of up to 32 ranks.
#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

void try_roots(Operation operation, std::string_view algorithm, int ranks, int root_step) {
  std::uint64_t run = static_cast<std::uint64_t>(ranks);
  for (int root = 0; root < ranks; root += root_step) {
    for (const Size& size : sizes_for(ranks, static_cast<std::uint64_t>(root))) {
      const Case c{
          .operation = operation,
          .algorithm = algorithm,
          .problem = {.size = ranks, .root = root, .count = size.count, .chunk = size.chunk},
          .options = options_for(run++)};
      const std::string failure = failure_of(c);
      if (!failure.empty()) FAIL(failure);
    }
  }
}

}  // namespace

TEST_CASE("broadcast and fan_out reach every rank, for sizes 1 to 64", "[sweep]") {
  for (const Operation operation : {Operation::broadcast, Operation::fan_out})
    for (const std::string_view algorithm : algorithms_of(operation))
      for (int ranks = 1; ranks <= 64; ++ranks)
        try_roots(operation, algorithm, ranks, ranks <= 32 ? 1 : 5);
}

TEST_CASE("broadcast and fan_out work beyond 64 ranks", "[sweep]") {
  for (const int ranks : {100, 128}) {
    for (const std::string_view algorithm : algorithms_of(Operation::broadcast))
      try_roots(Operation::broadcast, algorithm, ranks, 33);
    try_roots(Operation::fan_out, "direct", ranks, 33);
  }
}

TEST_CASE("broadcast is correct for every window and order") {
  for (const std::string_view algorithm : algorithms_of(Operation::broadcast)) {
    for (const int ranks : {2, 3, 4, 7, 8, 13}) {
      for (int window = 2; window <= 64; window += window < 8 ? 1 : 7) {
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          const Case c{.operation = Operation::broadcast,
                       .algorithm = algorithm,
                       .problem = {.size = ranks, .root = 1, .count = 101, .chunk = 3},
                       .options = {.window = window, .seed = seed}};
          const std::string failure = failure_of(c);
          if (!failure.empty()) FAIL(failure);
        }
      }
    }
  }
}

}  // namespace tutti::algorithm::test
