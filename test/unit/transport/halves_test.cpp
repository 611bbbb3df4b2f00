// The two halves of a link against each other, over a socket.
#include <cstring>

#include "half_pair.hpp"
#include "support/catch.hpp"

namespace tutti::transport::test {

TEST_CASE("a small message is sent eagerly") {
  HalfPair halves(64);
  Sending sending(collective(1), pattern(64));
  halves.out.post(sending.request);
  halves.out.write();
  CHECK(sending.request.done());
  halves.pump();
  Receiving receiving(collective(1), 64);
  halves.in.post(receiving.request);
  CHECK(receiving.request.done());
  CHECK(receiving.bytes == sending.bytes);
  CHECK(halves.is_sound());
}

TEST_CASE("a message of any size around the eager limit may arrive before or after its request") {
  for (const std::size_t count : {1, 63, 64, 65, 128, 1000, 300'000, 1'000'000}) {
    for (const bool receiver_first : {false, true}) {
      INFO(count << " bytes, receiver first: " << receiver_first);
      HalfPair halves(64);
      Sending sending(collective(1), pattern(count));
      Receiving receiving(collective(1), count);
      if (receiver_first) {
        halves.in.post(receiving.request);
        halves.pump();
      }
      halves.out.post(sending.request);
      halves.pump();
      if (!receiver_first) {
        REQUIRE(!receiving.request.done());
        halves.in.post(receiving.request);
        halves.pump();
      }
      REQUIRE(sending.request.done());
      REQUIRE(receiving.request.done());
      REQUIRE(receiving.bytes == sending.bytes);
      REQUIRE(halves.is_sound());
    }
  }
}

TEST_CASE("a long message sends only its eager bytes before clear-to-send") {
  HalfPair halves(64);
  Sending sending(collective(1), pattern(1000));
  halves.out.post(sending.request);
  halves.pump();
  CHECK(sending.request.sent == 64);
  Receiving receiving(collective(1), 1000);
  halves.in.post(receiving.request);
  halves.pump();
  CHECK(receiving.bytes == sending.bytes);
}

TEST_CASE("without eager bytes all data waits for clear-to-send") {
  HalfPair halves(0);
  Sending sending(collective(1), pattern(10));
  halves.out.post(sending.request);
  halves.pump();
  CHECK(sending.request.sent == 0);
  Receiving receiving(collective(1), 10);
  halves.in.post(receiving.request);
  halves.pump();
  CHECK(sending.request.done());
  CHECK(receiving.bytes == sending.bytes);
}

TEST_CASE("a sender's pieces need not match a receiver's") {
  for (const std::size_t eager : {0, 16, 1000}) {
    for (const std::size_t sent_piece : {1, 7, 50, 200}) {
      for (const std::size_t received_piece : {1, 9, 50, 200}) {
        HalfPair halves(eager);
        const auto call = collective(1);
        const auto bytes = pattern(200);
        Buffer to(200);
        std::deque<SendRequest> sends;
        std::deque<RecvRequest> receives;
        for (std::size_t at = 0; at < 200; at += sent_piece) {
          sends.push_back({.peer = 1,
                           .call = &call,
                           .from = std::span(bytes).subspan(at, std::min(sent_piece, 200 - at))});
        }
        for (std::size_t at = 0; at < 200; at += received_piece) {
          receives.emplace_back();
          receives.back().peer = 0;
          receives.back().call = &call;
          receives.back().to = std::span(to).subspan(at, std::min(received_piece, 200 - at));
        }
        // In turn, as an engine with a window posts them.
        for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
          if (i < sends.size()) halves.out.post(sends[i]);
          if (i % 3 == 0) halves.pump();
          if (i < receives.size()) halves.in.post(receives[i]);
          if (i % 5 == 0) halves.pump();
        }
        halves.pump();
        INFO("eager " << eager << ", pieces of " << sent_piece << " and " << received_piece);
        REQUIRE(sends.back().done());
        REQUIRE(receives.back().done());
        REQUIRE(to == bytes);
        REQUIRE(halves.is_sound());
      }
    }
  }
}

TEST_CASE("messages beyond the link's credit wait until the receiver consumes some") {
  constexpr std::size_t eager = 64;
  HalfPair halves(eager);
  std::deque<Sending> sending;
  for (std::uint64_t i = 0; i < 40; ++i) {
    sending.emplace_back(collective(i), pattern(eager, static_cast<unsigned>(i)));
    halves.out.post(sending.back().request);
  }
  halves.pump();
  std::size_t ahead = 0;
  for (const auto& each : sending) ahead += each.request.sent;
  CHECK(ahead == eager_credit(eager));
  CHECK(!sending.back().request.done());
  for (std::uint64_t i = 0; i < 40; ++i) {
    Receiving receiving(collective(i), eager);
    halves.in.post(receiving.request);
    halves.pump();
    INFO("message " << i);
    REQUIRE(receiving.request.done());
    REQUIRE(receiving.bytes == sending[static_cast<std::size_t>(i)].bytes);
  }
  CHECK(halves.is_sound());
}

TEST_CASE("credit is returned, so that eager messages continue") {
  HalfPair halves(64);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto length = 1 + i % 64;
    Sending sending(collective(i), pattern(length));
    Receiving receiving(collective(i), length);
    halves.out.post(sending.request);
    halves.pump();
    INFO("message " << i);
    REQUIRE(sending.request.done());  // without waiting for clear-to-send
    halves.in.post(receiving.request);
    REQUIRE(receiving.request.done());
    halves.pump();
    halves.out.finish(sending.call.key);
    halves.in.finish(receiving.call.key);
  }
  CHECK(halves.is_sound());
}

TEST_CASE("credit of unconsumed bytes is returned at the end of their call") {
  HalfPair halves(64);
  for (std::uint64_t i = 0; i < 100; ++i) {
    Sending sending(collective(i), pattern(64));
    halves.out.post(sending.request);
    halves.pump();
    INFO("message " << i);
    REQUIRE(sending.request.done());
    halves.in.finish(sending.call.key);
    halves.pump();
    halves.out.finish(sending.call.key);
  }
  CHECK(halves.is_sound());
}

TEST_CASE("a stream without a receiver blocks no other") {
  HalfPair halves(64);
  Sending unawaited(message(Operation::send, 1), pattern(1'000'000));
  Sending awaited(message(Operation::send, 2), pattern(1'000'000, 5));
  halves.out.post(unawaited.request);
  halves.pump();
  halves.out.post(awaited.request);
  Receiving receiving(message(Operation::recv, 2), 1'000'000);
  halves.in.post(receiving.request);
  halves.pump();
  CHECK(receiving.request.done());
  CHECK(receiving.bytes == awaited.bytes);
  CHECK(!unawaited.request.done());

  Receiving late(message(Operation::recv, 1), 1'000'000);
  halves.in.post(late.request);
  halves.pump();
  CHECK(late.bytes == unawaited.bytes);
  CHECK(halves.is_sound());
}

TEST_CASE("messages with different tags are received in any order") {
  for (const std::size_t length : {10, 5000}) {
    HalfPair halves(64);
    std::deque<Sending> sending;
    for (std::uint32_t tag = 0; tag < 5; ++tag) {
      sending.emplace_back(message(Operation::send, tag), pattern(length, tag));
      halves.out.post(sending.back().request);
    }
    halves.pump();
    for (const std::uint32_t tag : {3U, 0U, 4U, 2U, 1U}) {
      Receiving receiving(message(Operation::recv, tag), length);
      halves.in.post(receiving.request);
      halves.pump();
      INFO("tag " << tag << ", " << length << " bytes");
      REQUIRE(receiving.request.done());
      REQUIRE(receiving.bytes == sending[tag].bytes);
    }
    CHECK(halves.is_sound());
  }
}

TEST_CASE("two long streams share the link") {
  HalfPair halves(64, 4096);
  Sending first(message(Operation::send, 1), pattern(4'000'000));
  Sending second(message(Operation::send, 2), pattern(600'000, 3));
  Receiving first_to(message(Operation::recv, 1), first.bytes.size());
  Receiving second_to(message(Operation::recv, 2), second.bytes.size());
  halves.in.post(first_to.request);
  halves.in.post(second_to.request);
  halves.out.read();
  halves.out.post(first.request);
  halves.out.post(second.request);
  while (!second_to.request.done()) {
    halves.out.write();
    halves.in.read();
    halves.in.write();
    halves.out.read();
  }
  CHECK(!first_to.request.done());  // the shorter one did not wait for the longer
  halves.pump();
  CHECK(first_to.bytes == first.bytes);
  CHECK(second_to.bytes == second.bytes);
}

TEST_CASE("a socket that accepts a few bytes at a time works") {
  HalfPair halves(1024, 1);  // the kernel raises it to its minimum
  bool was_blocked = false;
  Sending sending(collective(1), pattern(200'000));
  Receiving receiving(collective(1), 200'000);
  halves.in.post(receiving.request);
  halves.out.post(sending.request);
  for (int round = 0; round < 100'000 && !receiving.request.done(); ++round) {
    halves.out.write();
    was_blocked |= halves.out.wants_to_write();
    halves.in.read();
    halves.in.write();
    halves.out.read();
  }
  CHECK(was_blocked);
  REQUIRE(receiving.request.done());
  CHECK(receiving.bytes == sending.bytes);
  halves.out.write();
  CHECK(!halves.out.wants_to_write());
}

namespace {

void add_bytes(std::byte* to, const std::byte* a, const std::byte* b, std::size_t elements) {
  for (std::size_t i = 0; i < 4 * elements; i += 4) {
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    std::memcpy(&left, a + i, 4);
    std::memcpy(&right, b + i, 4);
    left += right;
    std::memcpy(to + i, &left, 4);
  }
}

}  // namespace

TEST_CASE("data is reduced: eager, by rendezvous, buffered or split") {
  for (const std::size_t elements : {1, 15, 16, 17, 1000, 60'000}) {
    for (const bool receiver_first : {false, true}) {
      for (const int buffer_bytes : {0, 1}) {
        HalfPair halves(64, buffer_bytes);
        std::vector<std::uint32_t> own(elements);
        std::vector<std::uint32_t> result(elements);
        Sending sending(collective(1), pattern(4 * elements));
        Receiving receiving(collective(1), 0);
        for (std::size_t i = 0; i < elements; ++i) own[i] = static_cast<std::uint32_t>(i * i);
        receiving.request.to = std::as_writable_bytes(std::span(result));
        receiving.request.combine_with = std::as_bytes(std::span(own)).data();
        receiving.request.reduce = add_bytes;
        receiving.request.element_bytes = 4;
        if (receiver_first) halves.in.post(receiving.request);
        halves.out.post(sending.request);
        halves.pump();
        if (!receiver_first) halves.in.post(receiving.request);
        halves.pump();
        Buffer expected(4 * elements);
        add_bytes(expected.data(), std::as_bytes(std::span(own)).data(), sending.bytes.data(),
                  elements);
        INFO(elements << " elements, receiver first " << receiver_first << ", buffer "
                      << buffer_bytes);
        REQUIRE(receiving.request.done());
        REQUIRE(std::memcmp(result.data(), expected.data(), expected.size()) == 0);
      }
    }
  }
}

TEST_CASE("a request object may be posted again as soon as it is done") {
  for (const std::size_t length : {20, 500}) {
    HalfPair halves(64);
    const auto call = collective(1);
    Buffer from(length);
    Buffer to(length);
    SendRequest send;
    RecvRequest recv;
    // All rounds are one stream, as the steps of a schedule to one peer are.
    for (unsigned round = 0; round < 50; ++round) {
      from = pattern(length, round);
      send = {.peer = 1, .call = &call, .from = from};
      recv = {};
      recv.peer = 0;
      recv.call = &call;
      recv.to = to;
      halves.in.post(recv);
      halves.out.post(send);
      for (int i = 0; i < 100 && !(send.done() && recv.done()); ++i) {
        if (!send.done()) halves.out.write();
        halves.in.read();
        halves.in.write();
        halves.out.read();
      }
      INFO("length " << length << ", round " << round);
      REQUIRE(send.done());
      REQUIRE(recv.done());
      REQUIRE(to == pattern(length, round));
    }
    halves.pump();
    CHECK(halves.is_sound());
  }
}

}  // namespace tutti::transport::test
