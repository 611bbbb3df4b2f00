// Operations on blocks, and reduce: every algorithm, size, root, count, chunk and window, in place,
// out of place and mixed.
#include "cases.hpp"
#include "support/catch.hpp"

namespace tutti::algorithm::test {

namespace {

constexpr Operation operations[] = {Operation::reduce,     Operation::all_gather,
                                    Operation::gather,     Operation::scatter,
                                    Operation::all_to_all, Operation::reduce_scatter};
constexpr std::int64_t counts[] = {0, 1, 2, 7, 33};
constexpr std::int64_t chunks[] = {3, 1, 1000};
constexpr int windows[] = {2, 64};
constexpr std::uint64_t seeds[] = {0, 1, 7};

// Chunks, places, windows and seeds, in every combination.
constexpr std::uint64_t variants = 54;  // 3 · 3 · 2 · 3

bool has_root(Operation operation) {
  return operation == Operation::reduce || operation == Operation::gather ||
         operation == Operation::scatter;
}

std::vector<int> roots_of(Operation operation, int ranks) {
  if (!has_root(operation)) return {0};
  if (ranks > 16) return {1, ranks / 2, ranks - 1};
  std::vector<int> roots;
  roots.reserve(static_cast<std::size_t>(ranks));
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

Case case_of(Operation operation, std::string_view algorithm, int ranks, int root,
             std::int64_t count, std::uint64_t variant) {
  Case c{.operation = operation,
         .algorithm = algorithm,
         .problem = {.size = ranks, .root = root, .count = count, .chunk = chunks[variant % 3]},
         .options = {.window = windows[variant / 9 % 2], .seed = seeds[variant / 18 % 3]}};
  set_in_place(c, variant / 3 + (variant % 2) * 3);
  return c;
}

void require_right(const Case& c) {
  const std::string failure = failure_of(c);
  if (!failure.empty()) FAIL(failure);
}

// All variants of small jobs; a few variants of large ones, different for each size, root and
// count.
void sweep(Operation operation, std::string_view algorithm, int ranks, std::uint64_t& run) {
  for (const int root : roots_of(operation, ranks)) {
    for (const std::int64_t count : counts) {
      const std::uint64_t tried = ranks <= 5 ? variants : ranks <= 16 ? 9 : 2;
      for (std::uint64_t i = 0; i < tried; ++i)
        require_right(case_of(operation, algorithm, ranks, root, count, (run += 11) % variants));
    }
  }
}

}  // namespace

TEST_CASE("blocks and sums arrive at their positions, for sizes 1 to 64", "[sweep]") {
  for (const Operation operation : operations) {
    DYNAMIC_SECTION(name(operation)) {
      for (const std::string_view algorithm : algorithms_of(operation)) {
        std::uint64_t run = 0;
        for (int ranks = 1; ranks <= 64; ++ranks) sweep(operation, algorithm, ranks, run);
      }
    }
  }
}

TEST_CASE("blocks and sums arrive at their positions, beyond 64 ranks", "[sweep]") {
  for (const Operation operation : operations) {
    for (const std::string_view algorithm : algorithms_of(operation)) {
      for (const int ranks : {100, 128}) {
        for (std::uint64_t variant = 1; variant < variants; variant += 19)
          require_right(case_of(operation, algorithm, ranks, 77, 5, variant));
      }
    }
  }
}

TEST_CASE("blocks of many chunks need little scratch", "[sweep]") {
  for (const Operation operation : operations) {
    for (const std::string_view algorithm : algorithms_of(operation)) {
      for (const int ranks : {2, 3, 4, 5, 8, 11}) {
        for (std::uint64_t variant = 0; variant < variants; ++variant) {
          Case c = case_of(operation, algorithm, ranks, ranks / 2, 101, variant);
          c.problem.chunk = 2 + static_cast<std::int64_t>(variant % 3);
          require_right(c);
        }
      }
    }
  }
}

TEST_CASE("every window and order of events works") {
  for (const Operation operation : operations) {
    for (const std::string_view algorithm : algorithms_of(operation)) {
      for (const int ranks : {2, 3, 6, 8, 13}) {
        for (int window = 2; window <= 64; window += window < 8 ? 1 : 14) {
          for (std::uint64_t seed = 0; seed < 4; ++seed) {
            Case c = case_of(operation, algorithm, ranks, 1, 23,
                             static_cast<std::uint64_t>(window) + seed);
            c.problem.chunk = 3;
            c.options = {.window = window, .seed = seed};
            require_right(c);
          }
        }
      }
    }
  }
}

}  // namespace tutti::algorithm::test
