// Streams of bytes through a ring buffer.
#include "transport/ring.hpp"

#include <array>
#include <random>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace tutti::transport::test {
namespace {

constexpr std::size_t ring_bytes = 4096;

struct Ring {
  RingState state{};
  std::vector<std::byte> memory = std::vector<std::byte>(ring_bytes);
  RingWriter writer{state, memory};
  RingReader reader{state, memory};
};

std::vector<std::byte> pattern(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

iovec part_of(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> hundred_of(const std::vector<std::byte>& bytes) {
  return std::span(bytes).first(100);
}

/// From one thread to another.
void pass_through(Ring& ring) {
  const auto bytes = pattern(std::size_t{1} << 20, 4);
  std::thread writer([&] {
    std::mt19937 random(5);
    std::size_t done = 0;
    while (done < bytes.size()) {
      const auto piece = std::min<std::size_t>(1 + random() % 9000, bytes.size() - done);
      const std::array<iovec, 2> parts{
          part_of(std::span(bytes).subspan(done, piece / 2)),
          part_of(std::span(bytes).subspan(done + piece / 2, piece - piece / 2))};
      const auto taken = ring.writer.write(parts);
      if (taken == 0) std::this_thread::yield();
      done += taken;
    }
  });
  std::vector<std::byte> got(bytes.size());
  std::mt19937 random(6);
  std::size_t done = 0;
  while (done < got.size()) {
    const auto piece = std::min<std::size_t>(1 + random() % 9000, got.size() - done);
    const std::array<iovec, 1> place{part_of(std::span(got).subspan(done, piece))};
    const auto taken = ring.reader.read(place);
    if (taken == 0) std::this_thread::yield();
    done += taken;
  }
  writer.join();
  CHECK(got == bytes);
}

}  // namespace

TEST_CASE("a ring accepts what fits and returns it in order") {
  Ring ring;
  CHECK(ring.reader.available() == 0);
  CHECK(ring.reader.peek().empty());
  const auto bytes = pattern(ring_bytes + 100, 1);
  const std::array<iovec, 2> parts{part_of(std::span(bytes).first(10)),
                                   part_of(std::span(bytes).subspan(10))};
  CHECK(ring.writer.write(parts) == ring_bytes);
  CHECK(!ring.writer.has_space());
  CHECK(ring.writer.write(parts) == 0);
  std::vector<std::byte> got(ring_bytes + 7, std::byte{0xEE});
  const std::array<iovec, 2> places{part_of(std::span(got).first(33)),
                                    part_of(std::span(got).subspan(33))};
  CHECK(ring.reader.read(places) == ring_bytes);
  CHECK(std::equal(bytes.begin(), bytes.begin() + ring_bytes, got.begin()));
  CHECK(got[ring_bytes] == std::byte{0xEE});
  CHECK(ring.writer.has_space());
}

TEST_CASE("a ring that wraps around shows two pieces") {
  Ring ring;
  const auto bytes = pattern(ring_bytes, 2);
  const std::array<iovec, 1> max{part_of(std::span(bytes).first(ring_bytes - 6))};
  REQUIRE(ring.writer.write(max) == ring_bytes - 6);
  ring.reader.consume(ring_bytes - 6);
  const std::array<iovec, 1> ten{part_of(std::span(bytes).first(10))};
  REQUIRE(ring.writer.write(ten) == 10);
  CHECK(ring.reader.available() == 10);
  REQUIRE(ring.reader.peek().size() == 6);
  ring.reader.consume(6);
  REQUIRE(ring.reader.peek().size() == 4);
  CHECK(ring.reader.peek()[0] == bytes[6]);
}

TEST_CASE("forged positions cannot reach outside the ring") {
  Ring ring;
  ring.state.written.store(UINT64_MAX - 5);
  CHECK(ring.reader.available() == ring_bytes);
  CHECK(ring.reader.peek().size() <= ring_bytes);
  ring.state.read.store(UINT64_MAX / 2);
  const auto bytes = pattern(3 * ring_bytes, 3);
  const std::array<iovec, 1> part{part_of(bytes)};
  // If the reader claims to be ahead, the writer may continue, but only inside the ring.
  CHECK(ring.writer.write(part) <= bytes.size());
}

TEST_CASE("both sides continue at the next cache line") {
  Ring ring;
  const auto bytes = pattern(100, 7);
  const std::array<iovec, 1> part{part_of(bytes)};
  ring.writer.align();
  REQUIRE(ring.writer.write(part) == 100);
  ring.reader.align();
  REQUIRE(ring.reader.available() == 100);
  ring.reader.consume(100);
  ring.reader.align();
  CHECK(ring.reader.available() == 0);  // the writer is behind
  ring.writer.align();
  REQUIRE(ring.writer.write(part) == 100);
  REQUIRE(ring.reader.available() == 100);
  CHECK(ring.state.written.load() == 228);
  CHECK(ring.reader.starts_with(bytes));
}

TEST_CASE("the next bytes can be compared, also across the wrap-around") {
  Ring ring;
  const auto bytes = pattern(ring_bytes, 8);
  const std::array<iovec, 1> max{part_of(std::span(bytes).first(ring_bytes - 6))};
  REQUIRE(ring.writer.write(max) == ring_bytes - 6);
  ring.reader.consume(ring_bytes - 6);
  const std::array<iovec, 1> ten{part_of(std::span(bytes).first(10))};
  REQUIRE(ring.writer.write(ten) == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    auto other = std::vector<std::byte>(bytes.begin(), bytes.begin() + 10);
    CHECK(ring.reader.starts_with(other));
    other[i] ^= std::byte{1};
    CHECK(!ring.reader.starts_with(other));
  }
}

TEST_CASE("a ring allocates memory when it is reached, and continues without more") {
  std::vector<std::size_t> asked;
  std::size_t max = ring_bytes;
  const auto take = [&](std::size_t bytes) {
    asked.push_back(bytes);
    return bytes <= max;
  };
  const auto bytes = pattern(ring_bytes, 9);
  const std::array<iovec, 1> hundred{part_of(std::span(bytes).first(100))};
  SECTION("there is all") {
    Ring ring;
    ring.writer = RingWriter(ring.state, ring.memory, 512, take);
    for (int i = 0; i < 5; ++i) REQUIRE(ring.writer.write(hundred) == 100);
    CHECK(asked.empty());
    REQUIRE(ring.writer.write(hundred) == 100);
    CHECK(asked == std::vector<std::size_t>{1024});
    const std::array<iovec, 1> rest{part_of(bytes)};
    CHECK(ring.writer.write(rest) == ring_bytes - 600);
    CHECK(asked == std::vector<std::size_t>{1024, 2048, 4096});
    CHECK(ring.state.length.load() == 0);
  }
  SECTION("there is part of it") {
    max = 1024;
    Ring ring;
    ring.writer = RingWriter(ring.state, ring.memory, 512, take);
    const std::array<iovec, 1> rest{part_of(bytes)};
    CHECK(ring.writer.write(rest) == 1024);
    CHECK(ring.state.length.load() == 1024);
    REQUIRE(ring.reader.peek().size() == 1024);
    ring.reader.consume(1000);
    CHECK(ring.writer.write(hundred) == 100);
    CHECK(ring.reader.available() == 124);
    CHECK(ring.reader.peek().size() == 24);
    CHECK(!ring.reader.starts_with(hundred_of(bytes)));
    ring.reader.consume(24);
    CHECK(ring.reader.peek().data() == ring.memory.data());
    CHECK(ring.reader.starts_with(hundred_of(bytes)));
    CHECK(asked == std::vector<std::size_t>{1024, 2048});  // not again and again
  }
}

TEST_CASE("a forged length cannot reach outside the ring") {
  Ring ring;
  ring.state.written.store(3000);
  for (const std::uint64_t lie : {std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{64}, UINT64_MAX,
                                  std::uint64_t{1} << 63, std::uint64_t{2} * ring_bytes}) {
    CAPTURE(lie);
    ring.state.length.store(lie);
    const auto there = ring.reader.peek();
    CHECK(there.data() >= ring.memory.data());
    CHECK(there.data() + there.size() <= ring.memory.data() + ring_bytes);
    static_cast<void>(ring.reader.starts_with(pattern(100, 10)));
    ring.reader.consume(7);
  }
}

TEST_CASE("two threads pass bytes through a ring in pieces of any size") {
  for (const std::size_t max : {std::size_t{0}, std::size_t{256}, std::size_t{1024}, ring_bytes}) {
    CAPTURE(max);
    Ring ring;
    if (max != 0) {
      ring.writer =
          RingWriter(ring.state, ring.memory, 256, [max](std::size_t b) { return b <= max; });
    }
    pass_through(ring);
  }
}

}  // namespace tutti::transport::test
