// The two halves of a link: how they end, and what each learns of the other's calls.
#include <netinet/in.h>
#include <poll.h>

#include <thread>

#include "half_pair.hpp"
#include "support/catch.hpp"

namespace tutti::transport::test {

TEST_CASE("data that has arrived is read before the peer's end is reported") {
  HalfPair halves(1 << 20);
  Sending sending(collective(1), pattern(100'000));
  Receiving receiving(collective(1), 100'000);
  halves.out.post(sending.request);
  halves.out.write();
  REQUIRE(sending.request.done());
  halves.out.shut_down();
  halves.in.post(receiving.request);
  for (int i = 0; i < 100; ++i) halves.in.read();
  CHECK(receiving.request.done());
  CHECK(receiving.bytes == sending.bytes);
  CHECK(halves.in.failure() == "the peer closed the connection");
}

TEST_CASE("both halves report why the peer is gone") {
  SocketPair pair;
  RecordingInspector witness;
  OutgoingHalf out(1, 64, witness);
  out.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
  CHECK(out.failure().empty());
  pair.other.reset();
  Sending sending(collective(1), pattern(10));
  out.post(sending.request);
  out.write();
  out.read();
  CHECK(!out.failure().empty());
  CHECK(!sending.request.done());
  CHECK(!out.write());  // and stays quiet
  CHECK(out.unacknowledged() == 0);
}

TEST_CASE("requests posted before the connection exists are served once it does") {
  RecordingInspector witness;
  OutgoingHalf out(1, 64, witness);
  IncomingHalf in(0, 64, witness);
  Sending small(collective(1), pattern(10));
  Sending large(collective(2), pattern(1000));
  Receiving small_to(collective(1), 10);
  Receiving large_to(collective(2), 1000);
  out.post(small.request);
  out.post(large.request);
  CHECK(!out.write());
  in.post(small_to.request);
  in.post(large_to.request);
  CHECK(!in.read());
  SocketPair pair;
  out.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
  in.connect(rendezvous::SecureSocket::plain(std::move(pair.other)));
  for (int i = 0; i < 10; ++i) {
    out.write();
    in.read();
    in.write();
    out.read();
  }
  CHECK(small_to.bytes == small.bytes);
  CHECK(large_to.bytes == large.bytes);
}

TEST_CASE("each side inspects the other's call") {
  HalfPair halves(64);
  Sending sending(collective(1, 1000), pattern(1000));
  Receiving receiving(collective(1, 1000), 1000);
  halves.in.post(receiving.request);
  halves.pump();
  REQUIRE(halves.at_sender.inspected.size() == 1);  // from the clear-to-send
  CHECK(halves.at_sender.inspected[0].peer == 1);
  CHECK(halves.at_sender.inspected[0].call == receiving.call);
  halves.out.post(sending.request);
  halves.pump();
  REQUIRE(halves.at_receiver.inspected.size() == 1);
  CHECK(halves.at_receiver.inspected[0].peer == 0);
  CHECK(halves.at_receiver.inspected[0].call == sending.call);
  CHECK(receiving.request.done());
}

TEST_CASE("a receiver does not read the data of another call") {
  for (const std::size_t length : {10, 1000}) {
    for (const bool receiver_first : {false, true}) {
      HalfPair halves(64);
      halves.at_receiver.accepts = [](const CallContext& theirs) {
        return theirs.signature.count == 5;
      };
      Sending sending(collective(1, 7), pattern(length));
      Receiving receiving(collective(1, 5), length);
      if (receiver_first) halves.in.post(receiving.request);
      halves.out.post(sending.request);
      halves.pump();
      if (!receiver_first) halves.in.post(receiving.request);
      halves.pump();
      INFO("length " << length << ", receiver first " << receiver_first);
      REQUIRE(!halves.at_receiver.inspected.empty());
      REQUIRE(halves.at_receiver.inspected[0].call.signature.count == 7);
      REQUIRE(receiving.request.received == 0);
      REQUIRE(receiving.bytes == Buffer(length));
      REQUIRE(halves.in.failure().empty());  // the link itself is intact
    }
  }
}

TEST_CASE("a sender does not fill the buffer of another call") {
  HalfPair halves(64);
  halves.at_sender.accepts = [](const CallContext& theirs) { return theirs.signature.count == 5; };
  Sending sending(collective(1, 5), pattern(1000));
  Receiving receiving(collective(1, 7), 1000);
  SECTION("clear-to-send arrives first") {
    halves.in.post(receiving.request);
    halves.pump();
    halves.out.post(sending.request);
  }
  SECTION("the call is made first") {
    halves.out.post(sending.request);
    halves.pump();
    halves.in.post(receiving.request);
  }
  halves.pump();
  CHECK(!halves.at_sender.inspected.empty());
  CHECK(!sending.request.done());
  CHECK(sending.request.sent <= 64);  // at most the eager bytes
  CHECK(!receiving.request.done());
}

TEST_CASE("a message without bytes names its call") {
  HalfPair halves(64);
  const auto call = message(Operation::send, 9);
  Sending sending(call, {});
  sending.request.names_call = true;
  halves.out.post(sending.request);
  CHECK(!sending.request.done());  // the sender must stay until it has left
  halves.pump();
  CHECK(sending.request.done());
  REQUIRE(halves.at_receiver.inspected.size() == 1);
  CHECK(halves.at_receiver.inspected[0].call == call);
  CHECK(halves.is_sound());
}

TEST_CASE("unacknowledged bytes are counted") {
  SocketPair pair;
  RecordingInspector witness;
  OutgoingHalf out(1, 64, witness);
  CHECK(out.unacknowledged() == 0);
  out.connect(rendezvous::SecureSocket::plain(std::move(pair.one)));
  CHECK(out.unacknowledged() == 0);
  Sending sending(collective(1), pattern(10));
  out.post(sending.request);
  out.write();
  CHECK(out.unacknowledged() > 0);  // on a Unix socket: until the peer has read it
  RawPeer(std::move(pair.other)).read(1000);
  CHECK(out.unacknowledged() == 0);
}

TEST_CASE("data read together with the last bytes is processed at once") {
  // 2 MiB at once, all of it in the kernel, then silence: the pieces to reduce go through the
  // staging buffer.
  const Descriptor listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int big = 8 << 20;
  ::setsockopt(listening.get(), SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listening.get(), plain, length) == 0);
  REQUIRE(::listen(listening.get(), 1) == 0);
  REQUIRE(::getsockname(listening.get(), plain, &length) == 0);
  const Descriptor writer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::setsockopt(writer.get(), SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof big);
  REQUIRE(::connect(writer.get(), plain, length) == 0);
  RecordingInspector witness;
  IncomingHalf half(0, 16384, witness);
  half.connect(
      rendezvous::SecureSocket::plain(Descriptor(::accept(listening.get(), nullptr, nullptr))));

  const std::size_t piece = max_payload_bytes - frame_header_bytes;
  constexpr std::size_t pieces = 8;
  Buffer to(pieces * piece);
  Buffer mine(to.size(), std::byte{1});
  CallContext call;
  call.key.sequence = 1;
  RecvRequest request;
  request.peer = 0;
  request.call = &call;
  request.to = to;
  request.combine_with = mine.data();
  request.reduce = [](std::byte* out, const std::byte* a, const std::byte*, std::size_t count) {
    std::copy(a, a + count, out);
  };
  half.post(request);
  Buffer halves;
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto header = encode({.kind = FrameKind::data,
                                .payload = static_cast<std::uint32_t>(piece),
                                .position = i * piece,
                                .call = call});
    halves.insert(halves.end(), header.begin(), header.end());
    halves.resize(halves.size() + piece);
  }
  std::thread([&] {
    for (std::size_t sent = 0; sent < halves.size();) {
      const auto done = ::write(writer.get(), halves.data() + sent, halves.size() - sent);
      if (done <= 0) return;
      sent += static_cast<std::size_t>(done);
    }
  }).join();
  // As the engine does: reads only while the socket is readable.
  pollfd readable{half.fd(), POLLIN, 0};
  while (!request.done() && ::poll(&readable, 1, 300) == 1) half.read();
  CHECK(request.done());
}

}  // namespace tutti::transport::test
