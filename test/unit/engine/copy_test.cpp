// Copies past the caches, and the choice among kinds of copies.
#include "engine/copy.hpp"

#include <set>
#include <vector>

#include "engine/copy_choice.hpp"
#include "support/catch.hpp"

namespace tutti::engine::test {

TEST_CASE("what is copied past the caches is all there, and nothing beside it") {
  constexpr std::size_t room = 1024;
  std::vector<std::byte> from(room);
  for (std::size_t i = 0; i < room; ++i) from[i] = static_cast<std::byte>(i * 37 + 1);
  constexpr std::byte untouched{0xEE};
  for (const std::size_t to_offset : {0U, 1U, 16U, 63U, 64U}) {
    for (const std::size_t from_offset : {0U, 3U, 32U}) {
      for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 200U, 513U}) {
        std::vector<std::byte> to(room, untouched);
        stream_bytes(to.data() + to_offset, from.data() + from_offset, bytes);
        auto expected = std::vector<std::byte>(room, untouched);
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_offset), bytes,
                    expected.begin() + static_cast<std::ptrdiff_t>(to_offset));
        CHECK(to == expected);
      }
    }
  }
}

namespace {

using namespace std::chrono_literals;
constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Of so many calls, the kinds that were taken how often, where `best` takes 1 ms and the others 2.
std::vector<int> taken(CopyChoice& choice, Streaming best, int calls) {
  std::vector<int> count(3);
  for (int i = 0; i < calls; ++i) {
    const auto kind = choice.next(Operation::broadcast, mebibyte);
    ++count[static_cast<std::size_t>(kind)];
    choice.took(Operation::broadcast, mebibyte, kind, kind == best ? 1ms : 2ms);
  }
  return count;
}

}  // namespace

TEST_CASE("after each kind of copy was tried, the fastest is taken") {
  for (const auto best : {Streaming::none, Streaming::out, Streaming::both}) {
    CopyChoice choice;
    const auto first = taken(choice, best, 12);
    CHECK(first == std::vector{4, 4, 4});
    const auto later = taken(choice, best, 988);
    CHECK(later[static_cast<std::size_t>(best)] > 900);
  }
}

TEST_CASE("when another kind of copy becomes the fastest it is found") {
  CopyChoice choice;
  taken(choice, Streaming::none, 200);
  taken(choice, Streaming::both, 110);
  CHECK(taken(choice, Streaming::both, 90)[2] == 90);
}

TEST_CASE("one slow call does not change the kind of copy") {
  CopyChoice choice;
  taken(choice, Streaming::out, 50);
  choice.took(Operation::broadcast, mebibyte, Streaming::out, 1s);
  CHECK(choice.next(Operation::broadcast, mebibyte) == Streaming::out);
}

TEST_CASE("operations and sizes are measured apart") {
  CopyChoice choice;
  taken(choice, Streaming::both, 50);
  std::set<Streaming> kinds;
  for (int i = 0; i < 6; ++i) {
    const auto kind = choice.next(Operation::broadcast, 4 * mebibyte);
    kinds.insert(kind);
    choice.took(Operation::broadcast, 4 * mebibyte, kind, 1ms);
  }
  CHECK(kinds.size() == 3);
  // The largest sizes share one place.
  CHECK(choice.next(Operation::all_reduce, ~std::size_t{0}) == Streaming::none);
}

}  // namespace tutti::engine::test
