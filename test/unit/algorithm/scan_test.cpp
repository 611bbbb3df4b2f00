// Scan and exclusive scan: every algorithm, size and count, in place and out of place.
#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

constexpr Operation scans[] = {Operation::scan, Operation::exclusive_scan};

void try_case(Operation operation, std::string_view algorithm, int ranks, const Size& size,
              std::uint64_t variant, const CheckOptions& options) {
  Case c{.operation = operation,
         .algorithm = algorithm,
         .problem = {.size = ranks, .count = size.count, .chunk = size.chunk},
         .options = options};
  set_in_place(c, variant);
  const std::string failure = failure_of(c);
  if (!failure.empty()) FAIL(failure);
}

template <class Action>
void for_each_algorithm(Action action) {
  for (const auto operation : scans) {
    for (const auto algorithm : algorithms_of(operation)) action(operation, algorithm);
  }
}

void try_counts(Operation operation, std::string_view algorithm, int ranks) {
  auto run = static_cast<std::uint64_t>(ranks);
  for (std::uint64_t round = 0; round < (ranks <= 24 ? 6 : 2); ++round) {
    const auto variant = static_cast<std::uint64_t>(ranks) + round;
    for (const Size& size : sizes_for(ranks, variant)) {
      try_case(operation, algorithm, ranks, size, variant, options_for(run++));
    }
  }
}

}  // namespace

TEST_CASE("a scan has the contributions of the lower ranks once, for 1 to 33 and 64 ranks") {
  for_each_algorithm([](Operation operation, std::string_view algorithm) {
    for (int ranks = 1; ranks <= 33; ++ranks) try_counts(operation, algorithm, ranks);
    try_counts(operation, algorithm, 64);
  });
}

TEST_CASE("a scan is correct for every small count and chunk") {
  for_each_algorithm([](Operation operation, std::string_view algorithm) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (std::int64_t count = 0; count <= 40; ++count) {
        for (std::int64_t chunk = 1; chunk <= 9; ++chunk) {
          const auto variant = static_cast<std::uint64_t>(count + chunk);
          try_case(operation, algorithm, ranks, {count, chunk}, variant, options_for(variant));
        }
      }
    }
  });
}

TEST_CASE("a scan is correct for every window and order") {
  for_each_algorithm([](Operation operation, std::string_view algorithm) {
    for (const int ranks : {2, 3, 4, 7, 8, 13}) {
      for (int window = 2; window <= 64; window += window < 8 ? 1 : 7) {
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          try_case(operation, algorithm, ranks, {101, 3}, seed, {.window = window, .seed = seed});
        }
      }
    }
  });
}

TEST_CASE("the checker finds a contribution that is missing in a scan, and one too many") {
  const ScheduleArguments problem{.size = 3, .count = 4, .chunk = 4, .in_place = false};
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank) {
    auto arguments = problem;
    arguments.rank = rank;
    schedules.push_back(make(Operation::scan, "chain", arguments));
  }
  const Expectation inclusive{
      .operation = Operation::scan, .count = problem.count, .in_place = false};
  CHECK(!check(schedules, inclusive));
  auto all_ranks = inclusive;
  all_ranks.operation = Operation::all_reduce;
  CHECK(check(schedules, all_ranks));
  // Rank 1 passes on its own contribution alone.
  auto forgetful = schedules;
  forgetful[1].loops.back().steps.back().from = Buffer::input;
  CHECK(check(forgetful, inclusive));
}

}  // namespace tutti::algorithm::test
