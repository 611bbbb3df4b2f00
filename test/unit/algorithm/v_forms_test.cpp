// Blocks of different lengths: random, and all kinds of empty ones.
#include <algorithm>
#include <random>

#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

using Counts = std::vector<std::int64_t>;

constexpr Operation operations[] = {Operation::all_gather_v, Operation::reduce_scatter_v,
                                    Operation::gather_v, Operation::scatter_v,
                                    Operation::all_to_all_v};

// Seed of the standard's generator: the same counts everywhere.
constexpr std::uint32_t counts_seed = 20240607;

class RandomCounts {
 public:
  // Up to 20 elements; about a third of the blocks are empty.
  Counts next(int ranks) {
    Counts counts;
    for (int rank = 0; rank < ranks; ++rank)
      counts.push_back(random_() % 3 == 0 ? 0 : static_cast<std::int64_t>(random_() % 21));
    return counts;
  }

 private:
  std::mt19937 random_{counts_seed};
};

// All empty; one block; all but one.
std::vector<Counts> extreme_counts(int ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  Counts one(size, 0);
  one[size / 2] = 17;
  Counts all_but_one(size, 5);
  all_but_one[size / 2] = 0;
  return {Counts(size, 0), one, all_but_one, Counts(size, 4)};
}

Case case_of(Operation operation, std::string_view algorithm, const Counts& counts, int root,
             std::uint64_t run) {
  constexpr std::int64_t chunks[] = {1, 3, 1000};
  Case c{.operation = operation,
         .algorithm = algorithm,
         .problem = {.size = static_cast<int>(counts.size()),
                     .root = root,
                     .chunk = chunks[run % 3],
                     .counts = counts},
         .options = options_for(run)};
  set_in_place(c, run / 2);
  if (operation == Operation::all_to_all_v) {
    // Rank r sends the counts rotated by r.
    set_in_place(c, 0);
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      c.sent.push_back(counts);
      std::rotate(c.sent.back().begin(),
                  c.sent.back().begin() + static_cast<std::ptrdiff_t>(rank * rank % counts.size()),
                  c.sent.back().end());
    }
    c.problem.counts.clear();
  }
  return c;
}

void require_right(Operation operation, const Counts& counts, int root, std::uint64_t run) {
  for (const std::string_view algorithm : algorithms_of(operation)) {
    const std::string failure = failure_of(case_of(operation, algorithm, counts, root, run));
    if (!failure.empty()) FAIL(failure << " (seed of the counts: " << counts_seed << ")");
  }
}

std::vector<int> roots_of(Operation operation, int ranks) {
  if (operation != Operation::gather_v && operation != Operation::scatter_v) return {0};
  if (ranks > 16) return {0, ranks / 3, ranks - 1};
  std::vector<int> roots;
  roots.reserve(static_cast<std::size_t>(ranks));
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

}  // namespace

TEST_CASE("blocks of any lengths arrive at their positions, for sizes 1 to 64", "[sweep]") {
  for (const Operation operation : operations) {
    RandomCounts random;
    std::uint64_t run = 0;
    for (int ranks = 1; ranks <= 64; ++ranks)
      for (const int root : roots_of(operation, ranks))
        for (int i = 0; i < (ranks <= 16 ? 8 : 2); ++i)
          require_right(operation, random.next(ranks), root, run++);
  }
}

TEST_CASE("blocks without elements are omitted") {
  for (const Operation operation : operations) {
    for (const int ranks : {1, 2, 3, 4, 7, 8, 17}) {
      for (const Counts& counts : extreme_counts(ranks)) {
        for (std::uint64_t run = 0; run < 24; ++run) {
          const auto roots = roots_of(operation, ranks);
          require_right(operation, counts, roots[run % roots.size()], run);
        }
      }
    }
  }
}

TEST_CASE("there must be one count for each rank") {
  const ScheduleArguments problem{.size = 3, .count = 0, .counts = {1, 2}};
  for (const Operation operation : operations)
    for (const std::string_view algorithm : algorithms_of(operation))
      CHECK_THROWS_AS(make(operation, algorithm, problem), std::invalid_argument);
}

}  // namespace tutti::algorithm::test
