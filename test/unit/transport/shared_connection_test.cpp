// The halves of two ranks' links, in both directions over one connection.
#include "half_pair.hpp"
#include "support/catch.hpp"

namespace tutti::transport::test {

namespace {

/// One rank's halves.
struct Side {
  RecordingInspector inspector;
  OutgoingHalf out;
  IncomingHalf in;

  Side(int peer, std::size_t eager) : out(peer, eager, inspector), in(peer, eager, inspector) {}
  void connect(Descriptor socket) {
    out.connect(rendezvous::SecureSocket::plain(std::move(socket)));
    in.share_connection(out);
  }
  bool pump() {
    const bool moved = in.read();
    return out.write() || moved;
  }
};

struct SharedPair {
  Side zero;
  Side one;

  explicit SharedPair(std::size_t eager, int buffer_bytes = 0) : zero(1, eager), one(0, eager) {
    SocketPair pair(buffer_bytes);
    zero.connect(std::move(pair.one));
    one.connect(std::move(pair.other));
  }
  void pump() {
    bool moved = true;
    while (moved) {
      moved = zero.pump();
      moved |= one.pump();
    }
  }
  [[nodiscard]] bool is_sound() const {
    return zero.out.failure().empty() && zero.in.failure().empty() && one.out.failure().empty() &&
           one.in.failure().empty();
  }
};

}  // namespace

TEST_CASE("messages of any size pass each other on one connection") {
  for (const std::size_t written : {0, 1, 7, 57}) {
    for (const std::size_t count : {1, 64, 65, 5000, 700'000}) {
      if (written != 0 && count > 5000) continue;
      INFO(count << " bytes, at most " << written << " a write");
      SharedPair ranks(64, 4096);
      for (auto* const side : {&ranks.zero, &ranks.one}) side->out.limit_writes(written);
      Sending there(collective(1), pattern(count, 1));
      Sending back(collective(1), pattern(count, 2));
      Receiving at_one(collective(1), count);
      Receiving at_zero(collective(1), count);
      ranks.zero.out.post(there.request);
      ranks.one.out.post(back.request);
      ranks.pump();
      ranks.zero.in.post(at_zero.request);
      ranks.one.in.post(at_one.request);
      ranks.pump();
      REQUIRE(there.request.done());
      REQUIRE(back.request.done());
      REQUIRE(at_one.request.done());
      REQUIRE(at_zero.request.done());
      CHECK(at_one.bytes == there.bytes);
      CHECK(at_zero.bytes == back.bytes);
      CHECK(ranks.is_sound());
    }
  }
}

TEST_CASE("credit returns on a shared connection, so that eager messages continue") {
  SharedPair ranks(64);
  for (std::uint64_t number = 1; number <= 200; ++number) {
    Sending there(collective(number), pattern(64));
    Receiving at_one(collective(number), 64);
    ranks.zero.out.post(there.request);
    ranks.one.in.post(at_one.request);
    ranks.pump();
    REQUIRE(there.request.done());
    REQUIRE(at_one.request.done());
    for (auto* const side : {&ranks.zero, &ranks.one}) {
      side->out.finish(there.call.key);
      side->in.finish(there.call.key);
    }
  }
  CHECK(ranks.is_sound());
}

TEST_CASE("a reply waits until the frame in progress is complete") {
  SharedPair ranks(0, 4096);
  Sending there(collective(1), pattern(200'000, 1));
  Receiving at_one(collective(1), 200'000);
  ranks.zero.out.post(there.request);
  ranks.one.in.post(at_one.request);
  ranks.zero.pump();
  ranks.one.pump();
  ranks.zero.pump();
  REQUIRE(ranks.zero.out.wants_to_write());  // within the payload
  // Clear-to-send for the other direction goes between two frames.
  Sending back(collective(2), pattern(100, 2));
  Receiving at_zero(collective(2), 100);
  ranks.one.out.post(back.request);
  ranks.zero.in.post(at_zero.request);
  ranks.pump();
  CHECK(at_one.bytes == there.bytes);
  CHECK(at_zero.bytes == back.bytes);
  CHECK(ranks.is_sound());
}

TEST_CASE("requests posted before a shared connection exists are served once it does") {
  Side zero(1, 0);
  Side one(0, 0);
  Sending there(collective(1), pattern(100));
  Receiving at_one(collective(1), 100);
  zero.out.post(there.request);
  one.in.post(at_one.request);
  SocketPair pair;
  zero.connect(std::move(pair.one));
  one.connect(std::move(pair.other));
  for (int i = 0; i < 10; ++i) {
    zero.pump();
    one.pump();
  }
  CHECK(at_one.bytes == there.bytes);
}

TEST_CASE("a receiver of a shared connection refuses replies to what was never sent") {
  for (const auto kind : {FrameKind::taken, FrameKind::data}) {
    Side zero(1, 64);
    SocketPair pair;
    RawPeer peer(std::move(pair.other));
    zero.connect(std::move(pair.one));
    peer.write({.kind = kind, .payload = 1, .position = 9, .call = collective(1)}, pattern(1));
    while (zero.in.read()) {
    }
    CHECK(zero.in.failure() == "malformed frame from the peer");
  }
}

}  // namespace tutti::transport::test
