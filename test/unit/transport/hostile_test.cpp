// A hostile peer: every frame that no correct peer sends ends the link and does no harm.
#include "half_pair.hpp"
#include "support/catch.hpp"

namespace tutti::transport::test {

namespace {

constexpr std::size_t eager = 64;

/// A receiving half whose peer is controlled by the test.
struct HostileSender {
  RecordingInspector witness;
  IncomingHalf in{0, eager, witness};
  RawPeer peer;
  Receiving receiving{collective(1), 1000};

  HostileSender() : HostileSender(SocketPair()) {}
  explicit HostileSender(SocketPair pair) : peer(std::move(pair.other)) {
    in.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
  }

  void write(FrameKind kind, std::uint64_t position, std::size_t payload,
             std::uint64_t sequence = 1) {
    peer.write({.kind = kind,
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

/// A sending half whose peer is controlled by the test.
struct HostileReceiver {
  RecordingInspector witness;
  OutgoingHalf out{1, eager, witness};
  RawPeer peer;

  HostileReceiver() : HostileReceiver(SocketPair()) {}
  explicit HostileReceiver(SocketPair pair) : peer(std::move(pair.other)) {
    out.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
  }
  std::string failure() {
    out.read();
    return out.failure();
  }
};

const std::string malformed = "malformed frame from the peer";

}  // namespace

TEST_CASE("valid frames written by hand are accepted") {
  HostileSender hostile;
  hostile.in.post(hostile.receiving.request);
  const auto frames = hostile.peer.read_headers();
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].kind == FrameKind::clear_to_send);
  CHECK(frames[0].position == 1000);
  hostile.write(FrameKind::eager, 0, eager);
  hostile.write(FrameKind::data, eager, 1000 - eager);
  CHECK(hostile.failure().empty());
  CHECK(hostile.receiving.request.done());
}

TEST_CASE("data without or beyond clear-to-send is refused") {
  HostileSender hostile;
  SECTION("no clear-to-send") {
    hostile.write(FrameKind::data, 0, 1);
  }
  SECTION("one byte too many") {
    hostile.in.post(hostile.receiving.request);
    hostile.write(FrameKind::data, 0, 1001);
  }
  SECTION("one byte too many, in the second frame") {
    hostile.in.post(hostile.receiving.request);
    hostile.write(FrameKind::data, 0, 1000);
    hostile.write(FrameKind::data, 1000, 1);
  }
  SECTION("clear-to-send of another stream") {
    hostile.in.post(hostile.receiving.request);
    hostile.write(FrameKind::data, 0, 10, 2);
  }
  CHECK(hostile.failure() == malformed);
}

TEST_CASE("data at the wrong position is refused") {
  for (const std::uint64_t position : {std::uint64_t{1}, std::uint64_t{999}, UINT64_MAX}) {
    HostileSender hostile;
    hostile.in.post(hostile.receiving.request);
    hostile.write(FrameKind::data, position, 1);
    CHECK(hostile.failure() == malformed);
    CHECK(hostile.receiving.request.received == 0);
  }
  HostileSender hostile;
  hostile.in.post(hostile.receiving.request);
  hostile.write(FrameKind::data, 0, 10);
  hostile.write(FrameKind::data, 5, 10);
  CHECK(hostile.failure() == malformed);
  CHECK(hostile.receiving.request.received == 10);
}

TEST_CASE("eager data beyond a stream's share is refused") {
  HostileSender hostile;
  SECTION("at once") {
    hostile.write(FrameKind::eager, 0, eager + 1);
  }
  SECTION("in two frames") {
    hostile.write(FrameKind::eager, 0, eager);
    hostile.write(FrameKind::eager, eager, 1);
  }
  CHECK(hostile.failure() == malformed);
}

TEST_CASE("eager data beyond the link's credit is refused, which bounds the buffer") {
  HostileSender hostile;
  constexpr auto streams = eager_credit(eager) / eager;
  for (std::uint64_t i = 1; i <= streams; ++i) hostile.write(FrameKind::eager, 0, eager, i);
  CHECK(hostile.failure().empty());
  hostile.write(FrameKind::eager, 0, 1, streams + 1);
  CHECK(hostile.failure() == malformed);
}

TEST_CASE("frames that only receivers send are refused by a receiver") {
  for (const auto kind : {FrameKind::clear_to_send, FrameKind::credit}) {
    HostileSender hostile;
    hostile.write(kind, 100, 0);
    CHECK(hostile.failure() == malformed);
  }
}

TEST_CASE("frames that only senders send are refused by a sender") {
  for (const auto kind : {FrameKind::data, FrameKind::eager, FrameKind::request_to_send}) {
    HostileReceiver hostile;
    const bool carries_data = kind != FrameKind::request_to_send;
    hostile.peer.write({.kind = kind, .payload = carries_data ? 1U : 0U, .call = collective(1)});
    CHECK(hostile.failure() == malformed);
  }
}

TEST_CASE("malformed frames are refused on both sides") {
  for (const unsigned value : {0x00U, 0xFFU, 0x47U}) {
    FrameHeader noise;
    noise.fill(static_cast<std::byte>(value));
    HostileSender sender;
    sender.peer.write(noise);
    CHECK(sender.failure() == malformed);
    HostileReceiver receiver;
    receiver.peer.write(noise);
    CHECK(receiver.failure() == malformed);
  }
}

TEST_CASE("an incomplete frame has no effect until the connection ends") {
  HostileSender hostile;
  hostile.in.post(hostile.receiving.request);
  const auto header = encode({.kind = FrameKind::eager, .payload = 8, .call = collective(1)});
  hostile.peer.write(std::span(header).first(20));
  CHECK(hostile.failure().empty());
  hostile.peer.write(std::span(header).subspan(20));
  CHECK(hostile.failure().empty());
  hostile.peer.write(pattern(3));
  CHECK(hostile.failure().empty());
  CHECK(hostile.receiving.request.received == 3);
  hostile.peer.read_headers();  // unread bytes would turn its end into a reset
  hostile.peer.close();
  CHECK(hostile.failure() == "the peer closed the connection");
  CHECK(!hostile.receiving.request.done());
}

TEST_CASE("frames are parsed correctly byte by byte") {
  HostileSender hostile;
  hostile.in.post(hostile.receiving.request);
  const auto bytes = pattern(1000);
  for (std::size_t at = 0; at < 1000; at += 250) {
    const auto header =
        encode({.kind = FrameKind::data, .payload = 250, .position = at, .call = collective(1)});
    for (const auto& byte : header) {
      hostile.peer.write(std::span(&byte, 1));
      hostile.in.read();
    }
    for (std::size_t i = 0; i < 250; ++i) {
      hostile.peer.write(std::span(bytes).subspan(at + i, 1));
      hostile.in.read();
    }
  }
  CHECK(hostile.failure().empty());
  CHECK(hostile.receiving.request.done());
  CHECK(hostile.receiving.bytes == bytes);
}

TEST_CASE("an excessive credit counts as the full one") {
  HostileReceiver hostile;
  hostile.peer.write({.kind = FrameKind::credit, .position = 1'000'000});
  hostile.peer.write({.kind = FrameKind::credit, .position = UINT64_MAX / 2});
  CHECK(hostile.failure().empty());
  std::deque<Sending> sending;
  for (std::uint64_t i = 0; i < 40; ++i) {
    sending.emplace_back(collective(i), pattern(eager));
    hostile.out.post(sending.back().request);
  }
  hostile.out.write();
  std::size_t ahead = 0;
  for (const auto& each : sending) ahead += each.request.sent;
  CHECK(ahead == eager_credit(eager));
}

TEST_CASE("an excessive clear-to-send sends no more than there is") {
  HostileReceiver hostile;
  Sending sending(collective(1), pattern(500));
  hostile.peer.write(
      {.kind = FrameKind::clear_to_send, .position = UINT64_MAX, .call = sending.call});
  CHECK(hostile.failure().empty());
  hostile.out.post(sending.request);
  hostile.out.write();
  CHECK(sending.request.done());
  CHECK(hostile.peer.read(10'000).size() == frame_header_bytes + 500);
}

TEST_CASE("clear-to-send cannot be revoked") {
  HostileReceiver hostile;
  Sending sending(collective(1), pattern(500));
  hostile.peer.write({.kind = FrameKind::clear_to_send, .position = 400, .call = sending.call});
  hostile.peer.write({.kind = FrameKind::clear_to_send, .position = 100, .call = sending.call});
  CHECK(hostile.failure().empty());
  hostile.out.post(sending.request);
  hostile.out.write();
  CHECK(sending.request.sent == 400);
}

TEST_CASE("clear-to-send frames for calls that are never made are bounded") {
  HostileReceiver hostile;
  std::uint64_t sequence = 0;
  while (hostile.failure().empty() && sequence < 200'000) {
    for (int i = 0; i < 100; ++i) {
      hostile.peer.write(
          {.kind = FrameKind::clear_to_send, .position = 1, .call = collective(++sequence)});
    }
  }
  CHECK(hostile.out.failure() == malformed);
  CHECK(sequence < 100'000);
}

}  // namespace tutti::transport::test
