// Reuse of a collective channel's slots, pages and ring.
#include <array>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "transport/shared_segment.hpp"
#include "tutti/error.hpp"

namespace tutti::transport::test {
namespace {

constexpr std::array local_ranks{0, 1};

std::shared_ptr<SharedSegment> make_segment() {
  return std::make_shared<SharedSegment>(SharedSegment::make_file(2), 0, 2);
}

struct Lying {
  std::uint64_t number;
  std::size_t begin;
  std::size_t end;
};

}  // namespace

TEST_CASE("a chunk never overwrites one that may still be read") {
  const auto seed = GENERATE(range(1U, 9U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto segment = make_segment();
  CollectiveChannel channel(segment, 0, 0, local_ranks, 0);
  const auto limit = channel.published_bytes() + channel.published_bytes() / 2;
  std::vector<Lying> unread;
  std::uint64_t read = 0;
  for (std::uint64_t number = 0; number < 4000; ++number) {
    if (number == 500) channel.grow();
    // Some chunks use slots or pages, or are put by other ranks only.
    if (random() % 4 == 0) continue;
    const auto shift = random() % 8;
    const std::size_t bytes = 1 + random() % (limit >> shift);
    const auto span = channel.next_span(number, bytes);
    REQUIRE(span.end - span.offset >= bytes);
    // The others have read exactly what the span requires.
    read = std::max(read, span.reads_before);
    std::erase_if(unread, [&](const Lying& lying) { return lying.number < read; });
    REQUIRE(span.reads_before <= number);
    REQUIRE(span.reads_before >= CollectiveChannel::reads_before_slot(number));
    for (const auto& lying : unread) {
      REQUIRE((span.end <= lying.begin || lying.end <= span.offset));
    }
    channel.reserve(number, span);
    unread.push_back({number, span.offset, span.end});
  }
}

TEST_CASE("a span is asked for again until it is free, and stays the same") {
  const auto segment = make_segment();
  CollectiveChannel channel(segment, 0, 0, local_ranks, 0);
  const auto bytes = channel.published_bytes();
  channel.reserve(0, channel.next_span(0, bytes));
  const auto first = channel.next_span(1, bytes);
  const auto again = channel.next_span(1, bytes);
  // Before it grows, the ring holds one such chunk.
  CHECK(first.reads_before == 1);
  CHECK(again.reads_before == first.reads_before);
  CHECK(again.offset == first.offset);
  CHECK(again.end == first.end);
}

TEST_CASE("a published offset outside the member's ring is refused") {
  const auto segment = make_segment();
  CollectiveChannel channel(segment, 0, 0, local_ranks, 0);
  std::uint64_t end = channel.published_bytes();
  const auto fits = [&](std::uint64_t offset) {
    try {
      return channel.in_ring(1, offset, 1) == channel.member(1).ring + offset;
    } catch (const Error&) {
      return false;
    }
  };
  while (fits(end)) end += page_bytes;
  CHECK(end >= 2 * channel.published_bytes());
  CHECK(channel.in_ring(1, end - page_bytes, page_bytes) != nullptr);
  CHECK_THROWS_AS(channel.in_ring(1, end - page_bytes, page_bytes + 1), Error);
  CHECK_THROWS_AS(channel.in_ring(1, UINT64_MAX, 1), Error);
  CHECK_THROWS_AS(channel.in_ring(1, UINT64_MAX - 1, page_bytes), Error);
  CHECK_THROWS_AS(channel.in_ring(1, 0, SIZE_MAX), Error);
}

TEST_CASE("a grown ring holds several of the longest chunks") {
  const auto segment = make_segment();
  CollectiveChannel channel(segment, 0, 0, local_ranks, 0);
  channel.reserve(0, channel.next_span(0, channel.published_bytes()));
  channel.grow();
  std::uint64_t number = 1;
  auto span = channel.next_span(number, channel.published_bytes());
  while (span.reads_before == 0) {
    // All of it is allocated.
    channel.self().ring[span.offset] = std::byte{1};
    channel.self().ring[span.end - 1] = std::byte{1};
    channel.reserve(number++, span);
    span = channel.next_span(number, channel.published_bytes());
  }
  CHECK(number >= 6);
}

}  // namespace tutti::transport::test
