// A peer that lies: every frame that no honest peer sends ends the link and harms nothing.
#include "support/catch.hpp"
#include "wire.hpp"

namespace tutti::transport::test {

namespace {

constexpr std::size_t eager = 64;

/// A receiving half with a liar at the other end.
struct LyingSender {
  Witness witness;
  IncomingHalf in{0, eager, witness};
  Stranger liar;
  Receiving receiving{collective(1), 1000};

  LyingSender() : LyingSender(SocketPair()) {}
  explicit LyingSender(SocketPair pair) : liar(std::move(pair.other)) {
    in.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
  }

  void write(FrameKind kind, std::uint64_t position, std::size_t payload,
             std::uint64_t sequence = 1) {
    liar.write({.kind = kind,
                .payload = static_cast<std::uint32_t>(payload),
                .position = position,
                .call = collective(sequence)},
               pattern(payload));
  }
  std::string failure() {
    while (in.read()) {
    }
    return in.failure();
  }
};

/// A sending half with a liar at the other end.
struct LyingReceiver {
  Witness witness;
  OutgoingHalf out{1, eager, witness};
  Stranger liar;

  LyingReceiver() : LyingReceiver(SocketPair()) {}
  explicit LyingReceiver(SocketPair pair) : liar(std::move(pair.other)) {
    out.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
  }
  std::string failure() {
    out.read();
    return out.failure();
  }
};

const std::string no_frame = "the peer sent what is no frame";

}  // namespace

TEST_CASE("honest frames, written by hand, are taken") {
  LyingSender peer;
  peer.in.post(peer.receiving.request);
  const auto frames = peer.liar.read_headers();
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].kind == FrameKind::clear_to_send);
  CHECK(frames[0].position == 1000);
  peer.write(FrameKind::eager, 0, eager);
  peer.write(FrameKind::data, eager, 1000 - eager);
  CHECK(peer.failure().empty());
  CHECK(peer.receiving.request.done());
}

TEST_CASE("data without a grant, or beyond it, is refused") {
  LyingSender peer;
  SECTION("nothing was cleared") {
    peer.write(FrameKind::data, 0, 1);
  }
  SECTION("one byte too many") {
    peer.in.post(peer.receiving.request);
    peer.write(FrameKind::data, 0, 1001);
  }
  SECTION("one byte too many, in the second frame") {
    peer.in.post(peer.receiving.request);
    peer.write(FrameKind::data, 0, 1000);
    peer.write(FrameKind::data, 1000, 1);
  }
  SECTION("another stream's grant") {
    peer.in.post(peer.receiving.request);
    peer.write(FrameKind::data, 0, 10, 2);
  }
  CHECK(peer.failure() == no_frame);
}

TEST_CASE("data at the wrong position is refused") {
  for (const std::uint64_t position : {std::uint64_t{1}, std::uint64_t{999}, UINT64_MAX}) {
    LyingSender peer;
    peer.in.post(peer.receiving.request);
    peer.write(FrameKind::data, position, 1);
    CHECK(peer.failure() == no_frame);
    CHECK(peer.receiving.request.received == 0);
  }
  LyingSender peer;
  peer.in.post(peer.receiving.request);
  peer.write(FrameKind::data, 0, 10);
  peer.write(FrameKind::data, 5, 10);
  CHECK(peer.failure() == no_frame);
  CHECK(peer.receiving.request.received == 10);
}

TEST_CASE("eager data beyond a stream's share is refused") {
  LyingSender peer;
  SECTION("at once") {
    peer.write(FrameKind::eager, 0, eager + 1);
  }
  SECTION("in two frames") {
    peer.write(FrameKind::eager, 0, eager);
    peer.write(FrameKind::eager, eager, 1);
  }
  CHECK(peer.failure() == no_frame);
}

TEST_CASE("eager data beyond the link's credit is refused, and so much is kept at most") {
  LyingSender peer;
  constexpr auto streams = eager_credit(eager) / eager;
  for (std::uint64_t i = 1; i <= streams; ++i) peer.write(FrameKind::eager, 0, eager, i);
  CHECK(peer.failure().empty());
  peer.write(FrameKind::eager, 0, 1, streams + 1);
  CHECK(peer.failure() == no_frame);
}

TEST_CASE("frames that only receivers send are refused by a receiver") {
  for (const auto kind : {FrameKind::clear_to_send, FrameKind::credit}) {
    LyingSender peer;
    peer.write(kind, 100, 0);
    CHECK(peer.failure() == no_frame);
  }
}

TEST_CASE("frames that only senders send are refused by a sender") {
  for (const auto kind : {FrameKind::data, FrameKind::eager, FrameKind::want}) {
    LyingReceiver peer;
    const bool carries_data = kind != FrameKind::want;
    peer.liar.write({.kind = kind, .payload = carries_data ? 1U : 0U, .call = collective(1)});
    CHECK(peer.failure() == no_frame);
  }
}

TEST_CASE("what is no frame at all is refused on both sides") {
  for (const unsigned value : {0x00U, 0xFFU, 0x47U}) {
    FrameHeader noise;
    noise.fill(static_cast<std::byte>(value));
    LyingSender sender;
    sender.liar.write(noise);
    CHECK(sender.failure() == no_frame);
    LyingReceiver receiver;
    receiver.liar.write(noise);
    CHECK(receiver.failure() == no_frame);
  }
}

TEST_CASE("a frame cut short is no news until the end comes") {
  LyingSender peer;
  peer.in.post(peer.receiving.request);
  const auto header = encode({.kind = FrameKind::eager, .payload = 8, .call = collective(1)});
  peer.liar.write(std::span(header).first(20));
  CHECK(peer.failure().empty());
  peer.liar.write(std::span(header).subspan(20));
  CHECK(peer.failure().empty());
  peer.liar.write(pattern(3));
  CHECK(peer.failure().empty());
  CHECK(peer.receiving.request.received == 3);
  peer.liar.read_headers();  // unread bytes would make its end a reset
  peer.liar.close();
  CHECK(peer.failure() == "the peer closed it");
  CHECK(!peer.receiving.request.done());
}

TEST_CASE("frames are read rightly byte by byte") {
  LyingSender peer;
  peer.in.post(peer.receiving.request);
  const auto bytes = pattern(1000);
  for (std::size_t at = 0; at < 1000; at += 250) {
    const auto header =
        encode({.kind = FrameKind::data, .payload = 250, .position = at, .call = collective(1)});
    for (const auto& byte : header) {
      peer.liar.write(std::span(&byte, 1));
      peer.in.read();
    }
    for (std::size_t i = 0; i < 250; ++i) {
      peer.liar.write(std::span(bytes).subspan(at + i, 1));
      peer.in.read();
    }
  }
  CHECK(peer.failure().empty());
  CHECK(peer.receiving.request.done());
  CHECK(peer.receiving.bytes == bytes);
}

TEST_CASE("an absurd credit is no more than the full one") {
  LyingReceiver peer;
  peer.liar.write({.kind = FrameKind::credit, .position = 1'000'000});
  peer.liar.write({.kind = FrameKind::credit, .position = UINT64_MAX / 2});
  CHECK(peer.failure().empty());
  std::deque<Sending> sending;
  for (std::uint64_t i = 0; i < 40; ++i) {
    sending.emplace_back(collective(i), pattern(eager));
    peer.out.post(sending.back().request);
  }
  peer.out.write();
  std::size_t ahead = 0;
  for (const auto& each : sending) ahead += each.request.taken;
  CHECK(ahead == eager_credit(eager));
}

TEST_CASE("an absurd grant sends no more than there is") {
  LyingReceiver peer;
  Sending sending(collective(1), pattern(500));
  peer.liar.write({.kind = FrameKind::clear_to_send, .position = UINT64_MAX, .call = sending.call});
  CHECK(peer.failure().empty());
  peer.out.post(sending.request);
  peer.out.write();
  CHECK(sending.request.done());
  CHECK(peer.liar.read(10'000).size() == frame_header_bytes + 500);
}

TEST_CASE("a grant takes nothing back") {
  LyingReceiver peer;
  Sending sending(collective(1), pattern(500));
  peer.liar.write({.kind = FrameKind::clear_to_send, .position = 400, .call = sending.call});
  peer.liar.write({.kind = FrameKind::clear_to_send, .position = 100, .call = sending.call});
  CHECK(peer.failure().empty());
  peer.out.post(sending.request);
  peer.out.write();
  CHECK(sending.request.taken == 400);
}

TEST_CASE("clears for calls that never come don't pile up for ever") {
  LyingReceiver peer;
  std::uint64_t sequence = 0;
  while (peer.failure().empty() && sequence < 200'000) {
    for (int i = 0; i < 100; ++i) {
      peer.liar.write(
          {.kind = FrameKind::clear_to_send, .position = 1, .call = collective(++sequence)});
    }
  }
  CHECK(peer.out.failure() == no_frame);
  CHECK(sequence < 100'000);
}

}  // namespace tutti::transport::test
