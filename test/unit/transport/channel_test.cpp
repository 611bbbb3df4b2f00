// Where the rounds of calls through shared memory lie.
#include <array>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "transport/shared_segment.hpp"
#include "tutti/error.hpp"

namespace tutti::transport::test {
namespace {

constexpr std::array local_ranks{0, 1};

std::shared_ptr<SharedSegment> make_arena() {
  return std::make_shared<SharedSegment>(SharedSegment::make_file(2), 0, 2);
}

struct Lying {
  std::uint64_t number;
  std::size_t begin;
  std::size_t end;
};

}  // namespace

TEST_CASE("a round is never put where another lies that may still be read") {
  const auto seed = GENERATE(range(1U, 9U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto segment = make_arena();
  CollectiveChannel channel(segment, 0, 0, local_ranks, 0);
  const auto most = channel.round_bytes() + channel.round_bytes() / 2;
  std::vector<Lying> unread;
  std::uint64_t read = 0;
  for (std::uint64_t number = 0; number < 4000; ++number) {
    if (number == 500) channel.grow();
    // Some rounds lie in slots or pages, or are put by others only.
    if (random() % 4 == 0) continue;
    const auto shift = random() % 8;
    const std::size_t bytes = 1 + random() % (most >> shift);
    const auto place = channel.next_place(number, bytes);
    REQUIRE(place.end - place.offset >= bytes);
    // The others have read no more than the place asks for.
    read = std::max(read, place.needed);
    std::erase_if(unread, [&](const Lying& lying) { return lying.number < read; });
    REQUIRE(place.needed <= number);
    REQUIRE(place.needed >= CollectiveChannel::slot_needs(number));
    for (const auto& lying : unread) {
      REQUIRE((place.end <= lying.begin || lying.end <= place.offset));
    }
    channel.take(number, place);
    unread.push_back({number, place.offset, place.end});
  }
}

TEST_CASE("a place is asked for again until it is free, and stays the same") {
  const auto segment = make_arena();
  CollectiveChannel channel(segment, 0, 0, local_ranks, 0);
  const auto bytes = channel.round_bytes();
  channel.take(0, channel.next_place(0, bytes));
  const auto first = channel.next_place(1, bytes);
  const auto again = channel.next_place(1, bytes);
  // Without growth there is memory for one such round.
  CHECK(first.needed == 1);
  CHECK(again.needed == first.needed);
  CHECK(again.offset == first.offset);
  CHECK(again.end == first.end);
}

TEST_CASE("what a member says of where its bytes lie leads to nowhere outside of its ring") {
  const auto segment = make_arena();
  CollectiveChannel channel(segment, 0, 0, local_ranks, 0);
  std::uint64_t end = channel.round_bytes();
  const auto fits = [&](std::uint64_t offset) {
    try {
      return channel.in_ring(1, offset, 1) == channel.member(1).ring + offset;
    } catch (const Error&) {
      return false;
    }
  };
  while (fits(end)) end += page_bytes;
  CHECK(end >= 2 * channel.round_bytes());
  CHECK(channel.in_ring(1, end - page_bytes, page_bytes) != nullptr);
  CHECK_THROWS_AS(channel.in_ring(1, end - page_bytes, page_bytes + 1), Error);
  CHECK_THROWS_AS(channel.in_ring(1, UINT64_MAX, 1), Error);
  CHECK_THROWS_AS(channel.in_ring(1, UINT64_MAX - 1, page_bytes), Error);
  CHECK_THROWS_AS(channel.in_ring(1, 0, SIZE_MAX), Error);
}

TEST_CASE("a grown ring holds several of the longest rounds at once") {
  const auto segment = make_arena();
  CollectiveChannel channel(segment, 0, 0, local_ranks, 0);
  channel.take(0, channel.next_place(0, channel.round_bytes()));
  channel.grow();
  std::uint64_t number = 1;
  auto place = channel.next_place(number, channel.round_bytes());
  while (place.needed == 0) {
    // There is memory for all of it.
    channel.self().ring[place.offset] = std::byte{1};
    channel.self().ring[place.end - 1] = std::byte{1};
    channel.take(number++, place);
    place = channel.next_place(number, channel.round_bytes());
  }
  CHECK(number >= 6);
}

}  // namespace tutti::transport::test
