// Broadcast and fan-out: every algorithm, size, root and count.
#include "problems.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

void try_all_roots(Operation operation, Make make, std::string_view algorithm, int ranks,
                   int root_step) {
  std::uint64_t run = static_cast<std::uint64_t>(ranks);
  for (int root = 0; root < ranks; root += root_step) {
    for (const Size& size : sizes_for(ranks, static_cast<std::uint64_t>(root))) {
      const Case c{.algorithm = algorithm,
                   .problem = {.rank = 0,
                               .size = ranks,
                               .root = root,
                               .count = size.count,
                               .chunk = size.chunk,
                               .in_place = true,
                               .host = {}},
                   .options = options_for(run++)};
      const std::string failure = failure_of(operation, make, c);
      if (!failure.empty()) FAIL(failure);
    }
  }
}

}  // namespace

TEST_CASE("broadcast reaches every rank, for sizes 1 to 64 and every root", "[sweep]") {
  for (const std::string_view algorithm : broadcast_algorithms())
    for (int ranks = 1; ranks <= 64; ++ranks)
      try_all_roots(Operation::broadcast, make_broadcast, algorithm, ranks, 1);
}

TEST_CASE("fan_out reaches every rank, for sizes 1 to 64 and every root", "[sweep]") {
  for (int ranks = 1; ranks <= 64; ++ranks)
    try_all_roots(Operation::fan_out, make_fan_out, "direct", ranks, 1);
}

TEST_CASE("broadcast and fan_out work beyond 64 ranks", "[sweep]") {
  for (const int ranks : {100, 128}) {
    for (const std::string_view algorithm : broadcast_algorithms())
      try_all_roots(Operation::broadcast, make_broadcast, algorithm, ranks, 33);
    try_all_roots(Operation::fan_out, make_fan_out, "direct", ranks, 33);
  }
}

TEST_CASE("broadcast is right for every window and order") {
  for (const std::string_view algorithm : broadcast_algorithms()) {
    for (const int ranks : {2, 3, 4, 7, 8, 13}) {
      for (int window = 2; window <= 64; window += window < 8 ? 1 : 7) {
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          const Case c{.algorithm = algorithm,
                       .problem = {.rank = 0,
                                   .size = ranks,
                                   .root = 1,
                                   .count = 101,
                                   .chunk = 3,
                                   .in_place = true,
                                   .host = {}},
                       .options = {.window = window, .seed = seed}};
          const std::string failure = failure_of(Operation::broadcast, make_broadcast, c);
          if (!failure.empty()) FAIL(failure);
        }
      }
    }
  }
}

}  // namespace tutti::algorithm::test
