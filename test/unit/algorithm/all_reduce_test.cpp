// All-reduce and barrier: every algorithm, size and count, in place and out of place.
#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

Case all_reduce_case(std::string_view algorithm, int ranks, const Size& size, bool in_place,
                     const CheckOptions& options) {
  return {
      .operation = Operation::all_reduce,
      .algorithm = algorithm,
      .problem = {.size = ranks, .count = size.count, .chunk = size.chunk, .in_place = in_place},
      .options = options};
}

void try_counts(std::string_view algorithm, int ranks) {
  std::uint64_t run = static_cast<std::uint64_t>(ranks);
  // Large jobs try fewer variants.
  for (std::uint64_t round = 0; round < (ranks <= 24 ? 6 : 2); ++round) {
    const std::uint64_t variant = static_cast<std::uint64_t>(ranks) + round;
    for (const Size& size : sizes_for(ranks, variant)) {
      // Every rank's scratch holds all contributions.
      if (algorithm == "gathered" && size.count * ranks > 5000) continue;
      Case c = all_reduce_case(algorithm, ranks, size, true, options_for(run++));
      set_in_place(c, variant);
      const std::string failure = failure_of(c);
      if (!failure.empty()) FAIL(failure);
    }
  }
}

}  // namespace

TEST_CASE("all_reduce counts each contribution once, for sizes 1 to 64", "[sweep]") {
  for (const std::string_view algorithm : algorithms_of(Operation::all_reduce))
    for (int ranks = 1; ranks <= 64; ++ranks) try_counts(algorithm, ranks);
}

TEST_CASE("all_reduce works beyond 64 ranks") {
  for (const std::string_view algorithm : algorithms_of(Operation::all_reduce))
    for (const int ranks : {100, 128}) try_counts(algorithm, ranks);
}

TEST_CASE("all_reduce is correct for every small count and chunk") {
  for (const std::string_view algorithm : algorithms_of(Operation::all_reduce)) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (std::int64_t count = 0; count <= 40; ++count) {
        for (std::int64_t chunk = 1; chunk <= 9; ++chunk) {
          const Case c = all_reduce_case(algorithm, ranks, {count, chunk}, count % 2 == 0,
                                         options_for(static_cast<std::uint64_t>(chunk)));
          const std::string failure = failure_of(c);
          if (!failure.empty()) FAIL(failure);
        }
      }
    }
  }
}

TEST_CASE("all_reduce is correct for every window and order") {
  for (const std::string_view algorithm : algorithms_of(Operation::all_reduce)) {
    for (const int ranks : {2, 3, 4, 7, 8, 13}) {
      for (int window = 2; window <= 64; window += window < 8 ? 1 : 7) {
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          const Case c = all_reduce_case(algorithm, ranks, {101, 3}, seed % 2 == 0,
                                         {.window = window, .seed = seed});
          const std::string failure = failure_of(c);
          if (!failure.empty()) FAIL(failure);
        }
      }
    }
  }
}

TEST_CASE("no rank leaves a barrier before all have entered") {
  for (int ranks = 1; ranks <= 130; ++ranks) {
    for (std::uint64_t run = 0; run < 16; ++run) {
      const Case c{.operation = Operation::barrier,
                   .algorithm = "dissemination",
                   .problem = {.size = ranks},
                   .options = {.window = run % 2 == 0 ? 2 : 64, .seed = run / 2}};
      const std::string failure = failure_of(c);
      if (!failure.empty()) FAIL(failure);
    }
  }
}

}  // namespace tutti::algorithm::test
