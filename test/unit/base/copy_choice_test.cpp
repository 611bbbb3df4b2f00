// Choice of ordinary or non-temporal copies.
#include "base/copy_choice.hpp"

#include <set>
#include <vector>

#include "support/catch.hpp"

namespace tutti::test {

namespace {

using namespace std::chrono_literals;
constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr CopyChoice::Kind at_leaf{Operation::broadcast, false, mebibyte};

/// Number of uses of each choice in `calls` calls, if `best` takes 1 ms and the others 2 ms.
std::vector<int> taken(CopyChoice& choice, Streaming best, int calls) {
  std::vector<int> count(3);
  for (int i = 0; i < calls; ++i) {
    const auto kind = choice.next(at_leaf);
    ++count[static_cast<std::size_t>(kind)];
    choice.took(at_leaf, kind, kind == best ? 1ms : 2ms);
  }
  return count;
}

}  // namespace

TEST_CASE("after each choice was tried, the fastest is used") {
  for (const auto best : {Streaming::none, Streaming::out, Streaming::both}) {
    CopyChoice choice;
    const auto first = taken(choice, best, 12);
    CHECK(first == std::vector{4, 4, 4});
    const auto later = taken(choice, best, 9988);
    CHECK(later[static_cast<std::size_t>(best)] > 9900);
  }
}

TEST_CASE("of long calls fewer are trials") {
  CopyChoice choice;
  CopyChoice::Kind longer = at_leaf;
  longer.bytes = 16 * mebibyte;
  for (int i = 0; i < 96; ++i) {
    const auto kind = choice.next(longer);
    choice.took(longer, kind, kind == Streaming::out ? 1ms : 2ms);
    CHECK((i < 6 || kind == Streaming::out));
  }
}

TEST_CASE("another choice that becomes the fastest is found") {
  CopyChoice choice;
  taken(choice, Streaming::none, 200);
  taken(choice, Streaming::both, 810);
  CHECK(taken(choice, Streaming::both, 90)[2] == 90);
}

TEST_CASE("what the first calls show does not last") {
  CopyChoice choice;
  for (int i = 0; i < 12; ++i) {
    const auto kind = choice.next(at_leaf);
    choice.took(at_leaf, kind, kind == Streaming::out ? 2ms : 3ms);
  }
  CHECK(taken(choice, Streaming::none, 84)[1] == 84);
  taken(choice, Streaming::none, 6);
  CHECK(taken(choice, Streaming::none, 90)[0] == 90);
}

TEST_CASE("one slow call does not change the choice") {
  CopyChoice choice;
  taken(choice, Streaming::out, 60);
  choice.took(at_leaf, Streaming::out, 1s);
  CHECK(choice.next(at_leaf) == Streaming::out);
}

TEST_CASE("operations, sizes and roles are measured separately") {
  for (const CopyChoice::Kind other : {CopyChoice::Kind{Operation::broadcast, true, mebibyte},
                                       {Operation::broadcast, false, 4 * mebibyte},
                                       {Operation::all_reduce, false, mebibyte}}) {
    CopyChoice choice;
    taken(choice, Streaming::both, 50);
    std::set<Streaming> kinds;
    for (int i = 0; i < 6; ++i) {
      const auto kind = choice.next(other);
      kinds.insert(kind);
      choice.took(other, kind, 1ms);
    }
    CHECK(kinds.size() == 3);
  }
  CopyChoice choice;
  // The largest sizes share one entry.
  CHECK(choice.next({Operation::all_reduce, false, ~std::size_t{0}}) == Streaming::none);
}

TEST_CASE("times are compared per byte within a size class") {
  CopyChoice choice;
  for (int i = 0; i < 60; ++i) {
    const auto kind = choice.next(at_leaf);
    choice.took(at_leaf, kind, kind == Streaming::out ? 1ms : 2ms);
  }
  CopyChoice::Kind longer = at_leaf;
  longer.bytes = mebibyte * 15 / 8;
  for (int i = 0; i < 8; ++i) {
    CHECK(choice.next(longer) == Streaming::out);
    choice.took(longer, Streaming::out, 1800us);
  }
}

}  // namespace tutti::test
