// All-reduce and barrier: every algorithm, size and count, in place and not.
#include "problems.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

Case all_reduce_case(std::string_view algorithm, int ranks, const Size& size, bool in_place,
                     const CheckOptions& options) {
  return {.algorithm = algorithm,
          .problem = {.rank = 0,
                      .size = ranks,
                      .root = 0,
                      .count = size.count,
                      .chunk = size.chunk,
                      .in_place = in_place,
                      .host = {}},
          .options = options};
}

void try_counts(std::string_view algorithm, int ranks) {
  std::uint64_t run = static_cast<std::uint64_t>(ranks);
  for (const int round : {0, 1, 2, 3}) {
    const bool in_place = round % 2 == 0;
    for (const Size& size : sizes_for(ranks, static_cast<std::uint64_t>(ranks + round))) {
      const Case c = all_reduce_case(algorithm, ranks, size, in_place, options_for(run++));
      const std::string failure = failure_of(Operation::all_reduce, make_all_reduce, c);
      if (!failure.empty()) FAIL(failure);
    }
  }
}

}  // namespace

TEST_CASE("all_reduce counts each contribution once, for sizes 1 to 64", "[sweep]") {
  for (const std::string_view algorithm : all_reduce_algorithms())
    for (int ranks = 1; ranks <= 64; ++ranks) try_counts(algorithm, ranks);
}

TEST_CASE("all_reduce works beyond 64 ranks") {
  for (const std::string_view algorithm : all_reduce_algorithms())
    for (const int ranks : {100, 128}) try_counts(algorithm, ranks);
}

TEST_CASE("all_reduce is right for every small count and chunk") {
  for (const std::string_view algorithm : all_reduce_algorithms()) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (std::int64_t count = 0; count <= 40; ++count) {
        for (std::int64_t chunk = 1; chunk <= 9; ++chunk) {
          const Case c = all_reduce_case(algorithm, ranks, {count, chunk}, count % 2 == 0,
                                         options_for(static_cast<std::uint64_t>(chunk)));
          const std::string failure = failure_of(Operation::all_reduce, make_all_reduce, c);
          if (!failure.empty()) FAIL(failure);
        }
      }
    }
  }
}

TEST_CASE("all_reduce is right for every window and order") {
  for (const std::string_view algorithm : all_reduce_algorithms()) {
    for (const int ranks : {2, 3, 4, 7, 8, 13}) {
      for (int window = 2; window <= 64; window += window < 8 ? 1 : 7) {
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          const Case c = all_reduce_case(algorithm, ranks, {101, 3}, seed % 2 == 0,
                                         {.window = window, .seed = seed});
          const std::string failure = failure_of(Operation::all_reduce, make_all_reduce, c);
          if (!failure.empty()) FAIL(failure);
        }
      }
    }
  }
}

TEST_CASE("nobody leaves a barrier before all have come") {
  for (int ranks = 1; ranks <= 130; ++ranks) {
    for (std::uint64_t run = 0; run < 16; ++run) {
      const Case c = all_reduce_case("dissemination", ranks, {0, 1}, true,
                                     {.window = run % 2 == 0 ? 2 : 64, .seed = run / 2});
      const std::string failure = failure_of(Operation::barrier, make_barrier, c);
      if (!failure.empty()) FAIL(failure);
    }
  }
}

}  // namespace tutti::algorithm::test
