// Bytes go, in order, into the posted requests.
#include "transport/incoming_stream.hpp"

#include <cstring>
#include <numeric>

#include "support/catch.hpp"

namespace tutti::transport::test {

namespace {

using Buffer = std::vector<std::byte>;

Buffer numbers(std::size_t count) {
  Buffer bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i + 1);
  return bytes;
}

RecvRequest into(Buffer& buffer) {
  RecvRequest request;
  request.to = buffer;
  return request;
}

void add_u32(std::byte* to, const std::byte* a, const std::byte* b, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    std::memcpy(&left, a + 4 * i, 4);
    std::memcpy(&right, b + 4 * i, 4);
    left += right;
    std::memcpy(to + 4 * i, &left, 4);
  }
}

/// A request that adds the received elements to `own`.
struct Adder {
  std::vector<std::uint32_t> own;
  std::vector<std::uint32_t> result;
  RecvRequest request;

  explicit Adder(std::size_t count) : own(count), result(count) {
    std::iota(own.begin(), own.end(), 1000U);
    request.to = std::as_writable_bytes(std::span(result));
    request.combine_with = std::as_bytes(std::span(own)).data();
    request.reduce = add_u32;
    request.element_bytes = 4;
  }
};

Buffer u32_bytes(std::size_t count) {
  std::vector<std::uint32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::uint32_t>(i * 0x01010101U);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::uint32_t> expected_sums(std::size_t count) {
  std::vector<std::uint32_t> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = 1000U + static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(i * 0x01010101U);
  }
  return result;
}

}  // namespace

TEST_CASE("bytes that arrive after their request go directly into it") {
  IncomingStream stream;
  Buffer to(10);
  auto request = into(to);
  stream.post(request);
  CHECK(stream.posted() == 10);
  CHECK(stream.put(numbers(10), false) == 10);
  CHECK(request.done());
  CHECK(to == numbers(10));
  CHECK(stream.arrived() == 10);
  CHECK(stream.buffered() == 0);
}

TEST_CASE("bytes that arrive before their request are buffered") {
  IncomingStream stream;
  CHECK(stream.put(numbers(10), true) == 0);
  CHECK(stream.buffered() == 10);
  CHECK(stream.arrived() == 10);
  Buffer to(10);
  auto request = into(to);
  stream.post(request);
  CHECK(!request.done());
  CHECK(stream.take_buffered() == 10);
  CHECK(request.done());
  CHECK(to == numbers(10));
  CHECK(stream.buffered() == 0);
}

TEST_CASE("two requests are filled correctly for every split of the bytes") {
  const auto bytes = numbers(20);
  for (std::size_t boundary = 1; boundary < 20; ++boundary) {
    for (std::size_t cut = 0; cut <= 20; ++cut) {
      for (const bool late : {false, true}) {
        IncomingStream stream;
        Buffer first(boundary);
        Buffer second(20 - boundary);
        auto one = into(first);
        auto two = into(second);
        stream.post(one);
        if (!late) stream.post(two);
        std::size_t taken = stream.put(std::span(bytes).first(cut), true);
        taken += stream.put(std::span(bytes).subspan(cut), true);
        if (late) stream.post(two);
        taken += stream.take_buffered();
        INFO("boundary " << boundary << ", cut " << cut << ", late " << late);
        REQUIRE(taken == 20);
        REQUIRE(one.done());
        REQUIRE(two.done());
        REQUIRE(first == Buffer(bytes.begin(), bytes.begin() + one.to.size()));
        REQUIRE(second == Buffer(bytes.begin() + one.to.size(), bytes.end()));
      }
    }
  }
}

TEST_CASE("new bytes stay behind buffered ones") {
  IncomingStream stream;
  const auto bytes = numbers(9);
  stream.put(std::span(bytes).first(3), true);
  Buffer to(9);
  auto request = into(to);
  stream.post(request);
  // The buffered bytes are not consumed yet.
  CHECK(stream.put(std::span(bytes).subspan(3), true) == 0);
  CHECK(stream.take_buffered() == 9);
  CHECK(to == bytes);
}

TEST_CASE("requests posted one by one consume buffered bytes in parts") {
  IncomingStream stream;
  stream.put(numbers(9), true);
  std::size_t at = 0;
  for (const std::size_t length : {2, 3, 4}) {
    Buffer to(length);
    auto request = into(to);
    stream.post(request);
    CHECK(stream.take_buffered() == length);
    const auto all = numbers(9);
    CHECK(to == Buffer(all.begin() + static_cast<std::ptrdiff_t>(at),
                       all.begin() + static_cast<std::ptrdiff_t>(at + length)));
    at += length;
  }
  CHECK(stream.buffered() == 0);
}

TEST_CASE("bytes that may not be buffered are only counted as arrived") {
  IncomingStream stream;
  Buffer to(4);
  auto request = into(to);
  stream.post(request);
  CHECK(stream.put(numbers(10), false) == 4);
  CHECK(stream.buffered() == 0);
  CHECK(stream.arrived() == 10);
}

TEST_CASE("a reduction is correct for every pair of splits, also within elements") {
  constexpr std::size_t count = 6;
  const auto bytes = u32_bytes(count);
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); ++second) {
      IncomingStream stream;
      Adder adder(count);
      stream.post(adder.request);
      stream.put(std::span(bytes).first(first), false);
      stream.put(std::span(bytes).subspan(first, second - first), false);
      REQUIRE(adder.request.done() == (second == bytes.size()));
      stream.put(std::span(bytes).subspan(second), false);
      INFO("cuts at " << first << " and " << second);
      REQUIRE(adder.request.done());
      REQUIRE(adder.result == expected_sums(count));
    }
  }
}

TEST_CASE("a reduction is correct byte by byte and from buffered bytes") {
  constexpr std::size_t count = 5;
  const auto bytes = u32_bytes(count);
  SECTION("byte by byte") {
    IncomingStream stream;
    Adder adder(count);
    stream.post(adder.request);
    for (const auto& byte : bytes) stream.put(std::span(&byte, 1), false);
    CHECK(adder.request.done());
    CHECK(adder.result == expected_sums(count));
  }
  SECTION("half buffered, half new") {
    for (std::size_t buffered = 0; buffered <= bytes.size(); ++buffered) {
      IncomingStream stream;
      Adder adder(count);
      stream.put(std::span(bytes).first(buffered), true);
      stream.post(adder.request);
      stream.take_buffered();
      stream.put(std::span(bytes).subspan(buffered), true);
      REQUIRE(adder.request.done());
      REQUIRE(adder.result == expected_sums(count));
    }
  }
}

TEST_CASE("a reduction may end where the next request begins") {
  const auto bytes = u32_bytes(4);
  IncomingStream stream;
  Adder adder(2);
  Buffer rest(8);
  auto plain = into(rest);
  stream.post(adder.request);
  stream.post(plain);
  stream.put(std::span(bytes).first(7), false);
  stream.put(std::span(bytes).subspan(7), false);
  CHECK(adder.result == expected_sums(2));
  CHECK(rest == Buffer(bytes.begin() + 8, bytes.end()));
}

TEST_CASE("only the front request offers direct space, unless it reduces") {
  IncomingStream stream;
  CHECK(stream.direct_space().empty());
  Buffer first(6);
  Buffer second(3);
  auto one = into(first);
  auto two = into(second);
  stream.post(one);
  stream.post(two);
  CHECK(stream.direct_space().data() == first.data());
  CHECK(stream.direct_space().size() == 6);
  stream.put(numbers(2), false);
  CHECK(stream.direct_space().data() == first.data() + 2);
  stream.put_directly(4);
  CHECK(one.done());
  CHECK(stream.arrived() == 6);
  CHECK(stream.direct_space().data() == second.data());
  stream.put_directly(3);
  CHECK(two.done());
  CHECK(stream.direct_space().empty());
  Adder adder(1);
  stream.post(adder.request);
  CHECK(stream.direct_space().empty());
}

TEST_CASE("an empty request is done immediately") {
  IncomingStream stream;
  Buffer nothing;
  auto empty = into(nothing);
  stream.post(empty);
  CHECK(stream.posted() == 0);
  Buffer to(2);
  auto request = into(to);
  stream.post(request);
  CHECK(stream.put(numbers(2), false) == 2);
  CHECK(request.done());
}

TEST_CASE("a request's memory can be reused as soon as it is done") {
  IncomingStream stream;
  Buffer to(4);
  RecvRequest request = into(to);
  const auto bytes = numbers(12);
  for (std::size_t i = 0; i < 3; ++i) {
    stream.post(request);
    stream.put(std::span(bytes).subspan(4 * i, 4), false);
    REQUIRE(request.done());
    REQUIRE(std::memcmp(to.data(), bytes.data() + 4 * i, 4) == 0);
    request = into(to);  // the same object
  }
}

}  // namespace tutti::transport::test
