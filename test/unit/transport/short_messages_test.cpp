// Messages through a ring without a request, mixed with messages that have one.
#include <sys/stat.h>

#include <deque>
#include <random>
#include <vector>

#include "host.hpp"
#include "support/catch.hpp"

namespace tutti::transport::test {
namespace {

constexpr std::size_t eager_bytes = std::size_t{64} << 10;

/// A link that has rings.
struct Link {
  Host host;
  HalfPair halves;
  OutgoingHalf& out = halves.out;
  IncomingHalf& in = halves.in;
  RecordingInspector& at_receiver = halves.at_receiver;

  explicit Link(bool with_memory = true)
      : halves(eager_bytes, host.dial(with_memory), host.accept()) {
    in.read();
  }
  void pump() { halves.pump(); }
};

CallContext sent(std::uint64_t sequence, std::size_t count, std::uint32_t tag = 0) {
  auto call = message(Operation::send, tag, sequence);
  call.signature.count = count;
  return call;
}

}  // namespace

TEST_CASE("a short message needs no request on either side") {
  Link link;
  const auto bytes = pattern(4);
  Buffer got(4);
  CHECK(link.in.try_receive(sent(1, 4), got) == Receipt::awaited);
  REQUIRE(link.out.try_send(sent(1, 4), bytes));
  REQUIRE(link.in.try_receive(sent(1, 4), got) == Receipt::taken);
  CHECK(got == bytes);
  CHECK(link.in.try_receive(sent(2, 4), got) == Receipt::awaited);
}

TEST_CASE("messages with and without requests mix on either side") {
  Link link;
  std::mt19937 random(11);
  int at_once = 0;
  for (std::uint64_t i = 1; i <= 20'000; ++i) {
    const std::size_t size = 1 + random() % (random() % 8 == 0 ? 20'000 : 300);
    const auto call = sent(i, size);
    Sending sending(call, pattern(size));
    Receiving receiving(call, size);
    const bool posted_before = random() % 8 == 0;
    if (posted_before) link.in.post(receiving.request);
    const bool has_left = random() % 2 == 0 && link.out.try_send(call, sending.bytes);
    if (!has_left) {
      link.out.post(sending.request);
      link.out.write();
    }
    const bool is_there = !posted_before && random() % 2 == 0 &&
                          link.in.try_receive(call, receiving.bytes) == Receipt::taken;
    at_once += static_cast<int>(has_left && is_there);
    if (!is_there && !posted_before) link.in.post(receiving.request);
    if (!is_there || !has_left) link.pump();
    INFO("message " << i << " of " << size << " bytes");
    REQUIRE(receiving.bytes == sending.bytes);
    REQUIRE((is_there || receiving.request.done()));
    if (!has_left) link.out.finish(call.key);
    if (!is_there) link.in.finish(call.key);
  }
  CHECK(at_once > 1000);
}

TEST_CASE("messages far ahead of their receiver, with and without requests") {
  Link link;
  std::mt19937 random(12);
  std::uint64_t sequence = 0;
  for (int burst = 0; burst < 200; ++burst) {
    // Sometimes more than the link's credit: then requests wait for clear-to-send.
    std::deque<Sending> sendings;
    for (auto count = 1 + random() % 150; count > 0; --count) {
      const std::size_t size = 1 + random() % (random() % 4 == 0 ? 20'000 : 300);
      auto& sending = sendings.emplace_back(sent(++sequence, size), pattern(size));
      const bool has_left = random() % 2 == 0 && link.out.try_send(sending.call, sending.bytes);
      if (has_left) {
        sending.request.sent = size;
      } else {
        link.out.post(sending.request);
        link.out.write();
      }
      if (random() % 16 == 0) link.in.read();
    }
    for (auto& sending : sendings) {
      Receiving receiving(sending.call, sending.bytes.size());
      const bool is_there =
          random() % 2 == 0 && link.in.try_receive(sending.call, receiving.bytes) == Receipt::taken;
      if (!is_there) {
        link.in.post(receiving.request);
        link.pump();
        REQUIRE(receiving.request.done());
        link.in.finish(sending.call.key);
      }
      REQUIRE(receiving.bytes == sending.bytes);
    }
    link.pump();
    for (auto& sending : sendings) {
      REQUIRE(sending.request.done());
      link.out.finish(sending.call.key);
    }
  }
  CHECK(link.out.try_send(sent(++sequence, 4), pattern(4)));
}

TEST_CASE("a link allocates memory when it is reached, on its sender's side only") {
  Link link;
  const auto bytes = pattern(4096);
  Buffer got(4096);
  const auto taken = [&] {
    struct stat status {};
    REQUIRE(::fstat(link.host.file.get(), &status) == 0);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  };
  const auto before = taken();
  const auto pass = [&](std::uint64_t sequence) {
    Sending sending(sent(sequence, 4096), bytes);
    link.out.post(sending.request);
    REQUIRE(link.out.write());
    link.out.finish(sending.call.key);
    REQUIRE(link.in.try_receive(sending.call, got) == Receipt::taken);
    REQUIRE(got == bytes);
    link.out.read();  // credit
  };
  for (std::uint64_t i = 1; i <= 7; ++i) pass(i);
  CHECK(taken() == before);
  pass(8);
  CHECK(taken() == before + (std::size_t{32} << 10));
  for (std::uint64_t i = 9; i <= 600; ++i) pass(i);
  CHECK(taken() == before + (std::size_t{2} << 20) - (std::size_t{32} << 10));
}

TEST_CASE("a message that is not next, or not the expected one, is left for a request") {
  Link link;
  const auto bytes = pattern(4);
  Buffer got(4);
  REQUIRE(link.out.try_send(sent(1, 4, 7), bytes));
  SECTION("another tag") {
    CHECK(link.in.try_receive(sent(1, 4, 8), got) == Receipt::refused);
    Receiving other(sent(1, 4, 8), 4);
    link.in.post(other.request);
    link.pump();
    CHECK(!other.request.done());
    // The first message has been buffered: it needs a request.
    CHECK(link.in.try_receive(sent(1, 4, 7), got) == Receipt::refused);
    Receiving first(sent(1, 4, 7), 4);
    link.in.post(first.request);
    CHECK(first.request.done());
    CHECK(first.bytes == bytes);
  }
  SECTION("another count") {
    Buffer longer(8);
    CHECK(link.in.try_receive(sent(1, 8, 7), longer) == Receipt::awaited);
    Buffer shorter(2);
    CHECK(link.in.try_receive(sent(1, 2, 7), shorter) == Receipt::refused);
    link.at_receiver.accepts = [](const CallContext&) { return false; };
    Receiving receiving(sent(1, 8, 7), 8);
    link.in.post(receiving.request);
    link.pump();
    CHECK(!receiving.request.done());
    CHECK(!link.at_receiver.inspected.empty());
  }
}

TEST_CASE("short messages consume and return the link's credit") {
  Link link;
  // Until the ring is allocated for all that the credit allows.
  Sending large(collective(1), pattern(std::size_t{3} << 20));
  Receiving receiving(collective(1), large.bytes.size());
  link.in.post(receiving.request);
  link.out.post(large.request);
  link.pump();
  REQUIRE(receiving.request.done());
  link.out.finish(large.call.key);
  link.in.finish(large.call.key);

  const auto bytes = pattern(8000);
  Buffer got(8000);
  std::uint64_t left = 0;
  while (link.out.try_send(sent(left + 1, 8000), bytes)) ++left;
  // Up to a quarter is being returned: see return_credit().
  constexpr auto max = eager_credit(eager_bytes) / 8000;
  CHECK((left > max - max / 4 && left <= max));
  for (std::uint64_t i = 1; i <= left; ++i) {
    REQUIRE(link.in.try_receive(sent(i, 8000), got) == Receipt::taken);
  }
  CHECK(link.out.try_send(sent(left + 1, 8000), bytes));
}

TEST_CASE("a message leaves immediately only if nothing precedes it") {
  Link link;
  Sending large(collective(1), pattern(1'000'000));
  link.out.post(large.request);
  link.out.write();
  const auto bytes = pattern(4);
  CHECK(!link.out.try_send(sent(1, 4), bytes));
  Receiving receiving(collective(1), 1'000'000);
  link.in.post(receiving.request);
  Buffer got(4);
  CHECK(link.in.try_receive(sent(1, 4), got) == Receipt::refused);
  link.pump();
  CHECK(receiving.bytes == large.bytes);
}

TEST_CASE("an empty or long message, or one by a socket, needs a request") {
  Link link;
  CHECK(!link.out.try_send(sent(1, 0), {}));
  CHECK(!link.out.try_send(sent(1, 10'000), pattern(10'000)));
  Buffer long_one(10'000);
  CHECK(link.in.try_receive(sent(1, 10'000), long_one) == Receipt::refused);
  Link choose_socket(false);
  CHECK(!choose_socket.out.try_send(sent(1, 4), pattern(4)));
  Buffer got(4);
  CHECK(choose_socket.in.try_receive(sent(1, 4), got) == Receipt::refused);
}

}  // namespace tutti::transport::test
