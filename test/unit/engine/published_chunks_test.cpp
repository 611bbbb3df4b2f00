// Chunks in a collective channel of two and three members.
#include "engine/published_chunks.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "channels.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::engine::test {

namespace {

constexpr std::size_t max_inline_bytes = 80;
constexpr auto slots = transport::slots_in_flight;

std::byte content(int member, std::uint64_t chunk, std::size_t index) {
  return static_cast<std::byte>((static_cast<std::size_t>(member) * 101 + chunk * 31 + index) %
                                251);
}

void fill(std::byte* to, int member, std::uint64_t chunk, std::size_t begin, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to[i] = content(member, chunk, begin + i);
}

bool has_content(const std::byte* data, int member, std::uint64_t chunk, std::size_t begin,
                 std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (data[i] != content(member, chunk, begin + i)) return false;
  }
  return true;
}

/// Returns false if the member has to wait for its readers.
bool publish(CallOfAll& call, int member, std::uint64_t chunk, std::size_t begin,
             std::size_t bytes) {
  auto* const to = call.of(member).try_open(chunk, begin, bytes);
  if (to == nullptr) return false;
  fill(to, member, chunk, begin, bytes);
  call.of(member).publish(chunk);
  return true;
}

/// Publishes as many pieces as possible. Returns their number.
std::uint64_t publish_all(CallOfAll& call, int member, std::size_t bytes) {
  std::uint64_t chunk = 0;
  while (publish(call, member, chunk, 0, bytes)) ++chunk;
  return chunk;
}

const std::byte* find(CallOfAll& call, int reader, int publisher, std::uint64_t chunk,
                      std::size_t begin, std::size_t bytes) {
  return call.of(reader).find(Channels::rank_of(publisher), chunk, begin, bytes);
}

}  // namespace

TEST_CASE("a published piece is read: up to 80 bytes in the slot, more in the ring buffer") {
  for (const std::size_t bytes : {0, 1, 79, 80, 81, 104, 105, 4095, 4096, 65536, 256 << 10}) {
    CAPTURE(bytes);
    Channels channels(2);
    CallOfAll call(channels, 2, 1);
    constexpr std::size_t begin = 1000;
    auto* const to = call.of(1).try_open(0, begin, bytes);
    REQUIRE(to != nullptr);
    CHECK(find(call, 0, 1, 0, begin, bytes) == nullptr);
    CHECK(call.of(0).mismatched_rank() == -1);
    fill(to, 1, 0, begin, bytes);
    call.of(1).publish(0);
    const auto* const all = find(call, 0, 1, 0, begin, bytes);
    REQUIRE(all != nullptr);
    CHECK(has_content(all, 1, 0, begin, bytes));
    const auto& publisher = channels.of(0).member(1);
    const auto* const first_slot = reinterpret_cast<const std::byte*>(publisher.region->slots);
    const bool is_in_slot = all > first_slot && all + bytes <= first_slot + sizeof(transport::Slot);
    CHECK(is_in_slot == (bytes <= max_inline_bytes));
    CHECK((all >= publisher.ring) == (bytes > max_inline_bytes));
    for (const auto part : {bytes / 3, bytes - bytes / 2, bytes}) {
      const auto* const data = find(call, 0, 1, 0, begin + bytes - part, part);
      REQUIRE(data != nullptr);
      CHECK(has_content(data, 1, 0, begin + bytes - part, part));
    }
    CHECK(call.of(0).mismatched_rank() == -1);
  }
}

TEST_CASE("a rank that reads other bytes than published gets an error") {
  for (const std::size_t bytes : {0, 80, 81, 5000}) {
    CAPTURE(bytes);
    Channels channels(2);
    CallOfAll call(channels, 2, 1);
    REQUIRE(publish(call, 0, 0, 100, bytes));
    CHECK(find(call, 1, 0, 0, 100, bytes) != nullptr);
    CHECK_THROWS_AS(find(call, 1, 0, 0, 99, bytes), Error);
    CHECK_THROWS_AS(find(call, 1, 0, 0, 99, 1), Error);
    CHECK_THROWS_AS(find(call, 1, 0, 0, 100, bytes + 1), Error);
    CHECK_THROWS_AS(find(call, 1, 0, 0, 100 + bytes, 1), Error);
    CHECK_THROWS_AS(find(call, 1, 0, 0, 101, bytes), Error);
  }
}

TEST_CASE("a slot is reused once all other members have released its chunk") {
  for (const int members : {2, 3}) {
    CAPTURE(members);
    Channels channels(members);
    CallOfAll call(channels, members, 3 * slots);
    REQUIRE(publish_all(call, 0, 8) == slots);
    for (std::uint64_t chunk = 0; chunk < slots; ++chunk) {
      const auto* const data = find(call, 1, 0, chunk, 0, 8);
      REQUIRE(data != nullptr);
      CHECK(has_content(data, 0, chunk, 0, 8));
    }
    for (std::uint64_t chunk = slots; chunk < 3 * slots; ++chunk) {
      for (int member = 1; member < members; ++member) {
        REQUIRE(call.of(0).try_open(chunk, 0, 8) == nullptr);
        call.of(member).release(chunk - slots);
      }
      REQUIRE(publish(call, 0, chunk, 0, 8));
      REQUIRE(call.of(0).try_open(chunk + 1, 0, 8) == nullptr);
      const auto* const data = find(call, 1, 0, chunk, 0, 8);
      REQUIRE(data != nullptr);
      CHECK(has_content(data, 0, chunk, 0, 8));
    }
  }
}

TEST_CASE("a piece never overwrites one that a member may still read") {
  const auto seed = GENERATE(range(1U, 5U));
  const int members = GENERATE(2, 3);
  CAPTURE(seed, members);
  std::mt19937 random(seed);
  Channels channels(members);
  constexpr std::uint64_t chunks = 400;
  CallOfAll call(channels, members, chunks);
  struct Piece {
    std::size_t begin;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  std::vector<std::uint64_t> released(static_cast<std::size_t>(members));
  const auto read_next = [&](int reader) {
    const auto chunk = released[static_cast<std::size_t>(reader)]++;
    const auto [begin, bytes] = pieces[chunk];
    const auto* const data = find(call, reader, 0, chunk, begin, bytes);
    REQUIRE(data != nullptr);
    REQUIRE(has_content(data, 0, chunk, begin, bytes));
    call.of(reader).release(chunk);
  };
  const auto slowest = [&] {
    return static_cast<int>(std::min_element(released.begin() + 1, released.end()) -
                            released.begin());
  };
  int waits = 0;
  int wraps = 0;
  const std::byte* latest = nullptr;
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    pieces.push_back({random() % 1000, random() % ((256U << 10) >> random() % 16)});
    const auto [begin, bytes] = pieces.back();
    while (!publish(call, 0, chunk, begin, bytes)) {
      // With all earlier chunks released it would wait forever.
      REQUIRE(released[static_cast<std::size_t>(slowest())] < chunk);
      read_next(slowest());
      ++waits;
    }
    if (bytes > max_inline_bytes) {
      const auto* const data = find(call, 1, 0, chunk, begin, 0);
      if (data < latest) ++wraps;
      latest = data;
    }
    for (int reader = 1; reader < members; ++reader) {
      if (random() % 4 == 0 && released[static_cast<std::size_t>(reader)] <= chunk)
        read_next(reader);
    }
  }
  while (released[static_cast<std::size_t>(slowest())] < chunks) read_next(slowest());
  CHECK(waits > 0);
  CHECK(wraps > 1);
}

TEST_CASE("a piece waits until the ring buffer has room") {
  Channels channels(2);
  CallOfAll call(channels, 2, 100);
  constexpr std::size_t bytes = 256 << 10;
  const auto published = publish_all(call, 0, bytes);
  // Its 2 MiB hold eight such pieces; some room is lost when it grows and at its end.
  CHECK(published >= 6);
  CHECK(published <= 8);
  CHECK(call.of(0).delays_opening(Channels::rank_of(1)));
  call.of(1).release(0);
  CHECK(publish(call, 0, published, 0, bytes));
  const auto* const data = find(call, 1, 0, 1, 0, bytes);
  REQUIRE(data != nullptr);
  CHECK(has_content(data, 0, 1, 0, bytes));
}

TEST_CASE("a publisher that waits names the ranks that it waits for") {
  const bool uses_ring = GENERATE(false, true);
  CAPTURE(uses_ring);
  Channels channels(3);
  CallOfAll call(channels, 3, 100);
  const std::size_t bytes = uses_ring ? 256 << 10 : 8;
  const auto chunk = publish_all(call, 1, bytes);
  const auto delays = [&](int member) {
    return call.of(1).delays_opening(Channels::rank_of(member));
  };
  CHECK(delays(0));
  CHECK(!delays(1));
  CHECK(delays(2));
  CHECK(!call.of(1).delays_opening(0));  // on another host
  SECTION("the first member has read") {
    call.of(0).release(0);
    REQUIRE(call.of(1).try_open(chunk, 0, bytes) == nullptr);
    CHECK(!delays(0));
    CHECK(delays(2));
  }
  SECTION("the last member has read") {
    call.of(2).release(0);
    REQUIRE(call.of(1).try_open(chunk, 0, bytes) == nullptr);
    CHECK(delays(0));
    CHECK(!delays(2));
  }
  SECTION("both have read") {
    call.of(0).release(0);
    call.of(2).release(0);
    REQUIRE(call.of(1).try_open(chunk, 0, bytes) != nullptr);
    CHECK(!delays(0));
    CHECK(!delays(2));
  }
}

TEST_CASE("a slot that names another call is a mismatch") {
  Channels channels(3);
  const auto members = channels.member_of_rank();
  SECTION("another call with the same number") {
    PublishedChunks reader(channels.of(0), members, 7, 1);
    PublishedChunks same(channels.of(1), members, 7, 1);
    PublishedChunks other(channels.of(2), members, 8, 1);
    for (auto* const chunks : {&same, &other}) {
      REQUIRE(chunks->try_open(0, 0, 4) != nullptr);
      chunks->publish(0);
    }
    CHECK(reader.find(Channels::rank_of(1), 0, 0, 4) != nullptr);
    CHECK(reader.mismatched_rank() == -1);
    CHECK(reader.find(Channels::rank_of(2), 0, 0, 4) == nullptr);
    CHECK(reader.mismatched_rank() == Channels::rank_of(2));
  }
  SECTION("a later chunk in the same slot") {
    PublishedChunks reader(channels.of(0), members, 7, 2 * slots);
    PublishedChunks third(channels.of(1), members, 7, 2 * slots);
    PublishedChunks ahead(channels.of(2), members, 7, 2 * slots);
    reader.release(slots - 1);
    third.release(slots - 1);
    for (std::uint64_t chunk = 0; chunk <= slots; ++chunk) {
      REQUIRE(ahead.try_open(chunk, 0, 4) != nullptr);
      ahead.publish(chunk);
    }
    CHECK(reader.find(Channels::rank_of(2), 1, 0, 4) != nullptr);
    CHECK(reader.mismatched_rank() == -1);
    CHECK(reader.find(Channels::rank_of(2), 0, 0, 4) == nullptr);
    CHECK(reader.mismatched_rank() == Channels::rank_of(2));
  }
}

TEST_CASE("a call's chunks follow those of the call before") {
  Channels channels(2);
  CallOfAll first(channels, 2, 3, 1);
  CallOfAll second(channels, 2, 2, 2);
  CHECK(first.of(0).may_run());
  CHECK(!second.of(0).may_run());
  for (std::uint64_t chunk = 0; chunk < 3; ++chunk) REQUIRE(publish(first, 0, chunk, 0, 40));
  // The other rank is still in the first call, so the second one's first chunk is not there.
  CHECK(find(second, 1, 0, 0, 0, 40) == nullptr);
  CHECK(second.of(1).mismatched_rank() == -1);
  first.of(0).finish();
  CHECK(second.of(0).may_run());
  CHECK(!second.of(1).may_run());
  auto* const to = second.of(0).try_open(0, 0, 40);
  REQUIRE(to != nullptr);
  fill(to, 0, 77, 0, 40);
  second.of(0).publish(0);
  for (std::uint64_t chunk = 0; chunk < 3; ++chunk) {
    const auto* const data = find(first, 1, 0, chunk, 0, 40);
    REQUIRE(data != nullptr);
    CHECK(has_content(data, 0, chunk, 0, 40));
  }
  const auto* const data = find(second, 1, 0, 0, 0, 40);
  REQUIRE(data != nullptr);
  CHECK(has_content(data, 0, 77, 0, 40));
}

TEST_CASE("a call that is finished twice does not reopen the channel to earlier calls") {
  Channels channels(2);
  CallOfAll first(channels, 2, 3);
  CallOfAll second(channels, 2, 1);
  CallOfAll third(channels, 2, 1);
  first.of(0).finish();
  CHECK(second.of(0).may_run());
  CHECK(!third.of(0).may_run());
  second.of(0).finish();
  CHECK(third.of(0).may_run());
  first.of(0).finish();
  CHECK(third.of(0).may_run());
}

TEST_CASE("a rank that has published in a call has read all chunks of earlier calls") {
  Channels channels(2);
  CallOfAll first(channels, 2, slots);
  CallOfAll second(channels, 2, 2);
  REQUIRE(publish_all(first, 0, 8) == slots);
  first.of(0).release(slots - 1);
  first.of(0).finish();
  first.of(1).finish();
  CHECK(second.of(0).try_open(0, 0, 8) == nullptr);
  CHECK(second.of(0).delays_opening(Channels::rank_of(1)));
  REQUIRE(publish(second, 1, 0, 0, 8));
  REQUIRE(find(second, 0, 1, 0, 0, 8) != nullptr);
  CHECK(second.of(0).try_open(0, 0, 8) != nullptr);
  CHECK(!second.of(0).delays_opening(Channels::rank_of(1)));
}

TEST_CASE("ranks in threads of their own exchange pieces of all lengths") {
  for (const int members : {2, 3}) {
    Channels channels(members);
    constexpr std::uint64_t chunks = 300;
    CallOfAll call(channels, members, chunks);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    const auto length_of = [](int member, std::uint64_t chunk) {
      const auto shift = (chunk * 7 + static_cast<std::uint64_t>(member)) % 17;
      return (std::size_t{1} << shift) + (chunk * 5) % 97;
    };
    std::vector<std::string> faults(static_cast<std::size_t>(members));
    const auto run = [&](int own) {
      auto& fault = faults[static_cast<std::size_t>(own)];
      const auto await = [&](auto attempt) {
        while (!attempt()) {
          if (std::chrono::steady_clock::now() > until) return false;
          std::this_thread::yield();
        }
        return true;
      };
      for (std::uint64_t chunk = 0; chunk < chunks && fault.empty(); ++chunk) {
        if (!await([&] { return publish(call, own, chunk, chunk, length_of(own, chunk)); }))
          fault = "no room for chunk " + std::to_string(chunk);
        for (int peer = 0; peer < members && fault.empty(); ++peer) {
          if (peer == own) continue;
          const auto bytes = length_of(peer, chunk);
          const std::byte* data = nullptr;
          if (!await([&] {
                data = find(call, own, peer, chunk, chunk, bytes);
                return data != nullptr;
              })) {
            fault = "chunk " + std::to_string(chunk) + " is missing";
          } else if (!has_content(data, peer, chunk, chunk, bytes)) {
            fault = "chunk " + std::to_string(chunk) + " is wrong";
          }
        }
        call.of(own).release(chunk);
      }
    };
    std::vector<std::thread> threads;
    for (int member = 0; member < members; ++member) threads.emplace_back(run, member);
    for (auto& thread : threads) thread.join();
    for (const auto& fault : faults) CHECK(fault == "");
  }
}

}  // namespace tutti::engine::test
