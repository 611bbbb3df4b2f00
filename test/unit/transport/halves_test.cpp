// The two halves of a link with each other, over a socket.
#include <cstring>

#include <netinet/in.h>
#include <poll.h>

#include <thread>

#include "support/catch.hpp"
#include "wire.hpp"

namespace tutti::transport::test {

TEST_CASE("a small message is sent before its receiver asks") {
  Wire wire(64);
  Sending sending(collective(1), pattern(64));
  wire.out.post(sending.request);
  wire.out.write();
  CHECK(sending.request.done());
  wire.pump();
  Receiving receiving(collective(1), 64);
  wire.in.post(receiving.request);
  CHECK(receiving.request.done());
  CHECK(receiving.bytes == sending.bytes);
  CHECK(wire.is_sound());
}

TEST_CASE("a message may come before or after its request, of any size around the limit") {
  for (const std::size_t count : {1, 63, 64, 65, 128, 1000, 300'000, 1'000'000}) {
    for (const bool receiver_first : {false, true}) {
      INFO(count << " bytes, receiver first: " << receiver_first);
      Wire wire(64);
      Sending sending(collective(1), pattern(count));
      Receiving receiving(collective(1), count);
      if (receiver_first) {
        wire.in.post(receiving.request);
        wire.pump();
      }
      wire.out.post(sending.request);
      wire.pump();
      if (!receiver_first) {
        REQUIRE(!receiving.request.done());
        wire.in.post(receiving.request);
        wire.pump();
      }
      REQUIRE(sending.request.done());
      REQUIRE(receiving.request.done());
      REQUIRE(receiving.bytes == sending.bytes);
      REQUIRE(wire.is_sound());
    }
  }
}

TEST_CASE("of a long message only the agreed bytes leave before the grant") {
  Wire wire(64);
  Sending sending(collective(1), pattern(1000));
  wire.out.post(sending.request);
  wire.pump();
  CHECK(sending.request.taken == 64);
  Receiving receiving(collective(1), 1000);
  wire.in.post(receiving.request);
  wire.pump();
  CHECK(receiving.bytes == sending.bytes);
}

TEST_CASE("without eager bytes everything waits for its grant") {
  Wire wire(0);
  Sending sending(collective(1), pattern(10));
  wire.out.post(sending.request);
  wire.pump();
  CHECK(sending.request.taken == 0);
  Receiving receiving(collective(1), 10);
  wire.in.post(receiving.request);
  wire.pump();
  CHECK(sending.request.done());
  CHECK(receiving.bytes == sending.bytes);
}

TEST_CASE("a sender's pieces need not match a receiver's") {
  for (const std::size_t eager : {0, 16, 1000}) {
    for (const std::size_t sent_piece : {1, 7, 50, 200}) {
      for (const std::size_t received_piece : {1, 9, 50, 200}) {
        Wire wire(eager);
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
        // In turn, as an engine with a window would post them.
        for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
          if (i < sends.size()) wire.out.post(sends[i]);
          if (i % 3 == 0) wire.pump();
          if (i < receives.size()) wire.in.post(receives[i]);
          if (i % 5 == 0) wire.pump();
        }
        wire.pump();
        INFO("eager " << eager << ", pieces of " << sent_piece << " and " << received_piece);
        REQUIRE(sends.back().done());
        REQUIRE(receives.back().done());
        REQUIRE(to == bytes);
        REQUIRE(wire.is_sound());
      }
    }
  }
}

TEST_CASE("messages beyond the link's credit wait, and come once the receiver takes some") {
  constexpr std::size_t eager = 64;
  Wire wire(eager);
  std::deque<Sending> sending;
  for (std::uint64_t i = 0; i < 40; ++i) {
    sending.emplace_back(collective(i), pattern(eager, static_cast<unsigned>(i)));
    wire.out.post(sending.back().request);
  }
  wire.pump();
  std::size_t ahead = 0;
  for (const auto& each : sending) ahead += each.request.taken;
  CHECK(ahead == eager_credit(eager));
  CHECK(!sending.back().request.done());
  for (std::uint64_t i = 0; i < 40; ++i) {
    Receiving receiving(collective(i), eager);
    wire.in.post(receiving.request);
    wire.pump();
    INFO("message " << i);
    REQUIRE(receiving.request.done());
    REQUIRE(receiving.bytes == sending[static_cast<std::size_t>(i)].bytes);
  }
  CHECK(wire.is_sound());
}

TEST_CASE("credit comes back, so that eager messages never run dry") {
  Wire wire(64);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto length = 1 + i % 64;
    Sending sending(collective(i), pattern(length));
    Receiving receiving(collective(i), length);
    wire.out.post(sending.request);
    wire.pump();
    INFO("message " << i);
    REQUIRE(sending.request.done());  // without waiting for a grant
    wire.in.post(receiving.request);
    REQUIRE(receiving.request.done());
    wire.pump();
    wire.out.finish(sending.call.key);
    wire.in.finish(receiving.call.key);
  }
  CHECK(wire.is_sound());
}

TEST_CASE("credit of bytes that nobody took comes back when their call is over") {
  Wire wire(64);
  for (std::uint64_t i = 0; i < 100; ++i) {
    Sending sending(collective(i), pattern(64));
    wire.out.post(sending.request);
    wire.pump();
    INFO("message " << i);
    REQUIRE(sending.request.done());
    wire.in.finish(sending.call.key);
    wire.pump();
    wire.out.finish(sending.call.key);
  }
  CHECK(wire.is_sound());
}

TEST_CASE("a stream that nobody awaits holds up no other") {
  Wire wire(64);
  Sending unawaited(message(Operation::send, 1), pattern(1'000'000));
  Sending awaited(message(Operation::send, 2), pattern(1'000'000, 5));
  wire.out.post(unawaited.request);
  wire.pump();
  wire.out.post(awaited.request);
  Receiving receiving(message(Operation::recv, 2), 1'000'000);
  wire.in.post(receiving.request);
  wire.pump();
  CHECK(receiving.request.done());
  CHECK(receiving.bytes == awaited.bytes);
  CHECK(!unawaited.request.done());

  Receiving late(message(Operation::recv, 1), 1'000'000);
  wire.in.post(late.request);
  wire.pump();
  CHECK(late.bytes == unawaited.bytes);
  CHECK(wire.is_sound());
}

TEST_CASE("messages with different tags are received in any order") {
  for (const std::size_t length : {10, 5000}) {
    Wire wire(64);
    std::deque<Sending> sending;
    for (std::uint32_t tag = 0; tag < 5; ++tag) {
      sending.emplace_back(message(Operation::send, tag), pattern(length, tag));
      wire.out.post(sending.back().request);
    }
    wire.pump();
    for (const std::uint32_t tag : {3U, 0U, 4U, 2U, 1U}) {
      Receiving receiving(message(Operation::recv, tag), length);
      wire.in.post(receiving.request);
      wire.pump();
      INFO("tag " << tag << ", " << length << " bytes");
      REQUIRE(receiving.request.done());
      REQUIRE(receiving.bytes == sending[tag].bytes);
    }
    CHECK(wire.is_sound());
  }
}

TEST_CASE("two long streams share the link") {
  Wire wire(64, 4096);
  Sending first(message(Operation::send, 1), pattern(4'000'000));
  Sending second(message(Operation::send, 2), pattern(600'000, 3));
  Receiving first_to(message(Operation::recv, 1), first.bytes.size());
  Receiving second_to(message(Operation::recv, 2), second.bytes.size());
  wire.in.post(first_to.request);
  wire.in.post(second_to.request);
  wire.out.read();
  wire.out.post(first.request);
  wire.out.post(second.request);
  while (!second_to.request.done()) {
    wire.out.write();
    wire.in.read();
    wire.in.write();
    wire.out.read();
  }
  CHECK(!first_to.request.done());  // the shorter one did not wait for the longer
  wire.pump();
  CHECK(first_to.bytes == first.bytes);
  CHECK(second_to.bytes == second.bytes);
}

TEST_CASE("a socket that takes a few bytes at a time changes nothing") {
  Wire wire(1024, 1);  // the kernel makes it its least
  bool was_blocked = false;
  Sending sending(collective(1), pattern(200'000));
  Receiving receiving(collective(1), 200'000);
  wire.in.post(receiving.request);
  wire.out.post(sending.request);
  for (int round = 0; round < 100'000 && !receiving.request.done(); ++round) {
    wire.out.write();
    was_blocked |= wire.out.wants_to_write();
    wire.in.read();
    wire.in.write();
    wire.out.read();
  }
  CHECK(was_blocked);
  REQUIRE(receiving.request.done());
  CHECK(receiving.bytes == sending.bytes);
  wire.out.write();
  CHECK(!wire.out.wants_to_write());
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

TEST_CASE("what comes is reduced, eager, granted, kept or torn") {
  for (const std::size_t elements : {1, 15, 16, 17, 1000, 60'000}) {
    for (const bool receiver_first : {false, true}) {
      for (const int buffer_bytes : {0, 1}) {
        Wire wire(64, buffer_bytes);
        std::vector<std::uint32_t> own(elements);
        std::vector<std::uint32_t> result(elements);
        Sending sending(collective(1), pattern(4 * elements));
        Receiving receiving(collective(1), 0);
        for (std::size_t i = 0; i < elements; ++i) own[i] = static_cast<std::uint32_t>(i * i);
        receiving.request.to = std::as_writable_bytes(std::span(result));
        receiving.request.combine_with = std::as_bytes(std::span(own)).data();
        receiving.request.reduce = add_bytes;
        receiving.request.element_bytes = 4;
        if (receiver_first) wire.in.post(receiving.request);
        wire.out.post(sending.request);
        wire.pump();
        if (!receiver_first) wire.in.post(receiving.request);
        wire.pump();
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
    Wire wire(64);
    const auto call = collective(1);
    Buffer from(length);
    Buffer to(length);
    SendRequest send;
    RecvRequest recv;
    // All rounds are one stream, as the steps of one schedule to one peer are.
    for (unsigned round = 0; round < 50; ++round) {
      from = pattern(length, round);
      send = {.peer = 1, .call = &call, .from = from};
      recv = {};
      recv.peer = 0;
      recv.call = &call;
      recv.to = to;
      wire.in.post(recv);
      wire.out.post(send);
      for (int i = 0; i < 100 && !(send.done() && recv.done()); ++i) {
        if (!send.done()) wire.out.write();
        wire.in.read();
        wire.in.write();
        wire.out.read();
      }
      INFO("length " << length << ", round " << round);
      REQUIRE(send.done());
      REQUIRE(recv.done());
      REQUIRE(to == pattern(length, round));
    }
    wire.pump();
    CHECK(wire.is_sound());
  }
}

TEST_CASE("what has arrived is read before the peer's end is reported") {
  Wire wire(1 << 20);
  Sending sending(collective(1), pattern(100'000));
  Receiving receiving(collective(1), 100'000);
  wire.out.post(sending.request);
  wire.out.write();
  REQUIRE(sending.request.done());
  wire.out.shut_down();
  wire.in.post(receiving.request);
  for (int i = 0; i < 100; ++i) wire.in.read();
  CHECK(receiving.request.done());
  CHECK(receiving.bytes == sending.bytes);
  CHECK(wire.in.failure() == "the peer closed it");
}

TEST_CASE("both halves name the reason when the peer is gone") {
  SocketPair pair;
  Witness witness;
  OutgoingHalf out(1, 64, witness);
  out.connect(std::move(pair.one));
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

TEST_CASE("requests posted before the connection stands are served once it does") {
  Witness witness;
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
  out.connect(std::move(pair.one));
  in.connect(std::move(pair.other));
  for (int i = 0; i < 10; ++i) {
    out.write();
    in.read();
    in.write();
    out.read();
  }
  CHECK(small_to.bytes == small.bytes);
  CHECK(large_to.bytes == large.bytes);
}

TEST_CASE("each side is told of the other's call") {
  Wire wire(64);
  Sending sending(collective(1, 1000), pattern(1000));
  Receiving receiving(collective(1, 1000), 1000);
  wire.in.post(receiving.request);
  wire.pump();
  REQUIRE(wire.at_sender.told.size() == 1);  // by the grant
  CHECK(wire.at_sender.told[0].peer == 1);
  CHECK(wire.at_sender.told[0].call == receiving.call);
  wire.out.post(sending.request);
  wire.pump();
  REQUIRE(wire.at_receiver.told.size() == 1);
  CHECK(wire.at_receiver.told[0].peer == 0);
  CHECK(wire.at_receiver.told[0].call == sending.call);
  CHECK(receiving.request.done());
}

TEST_CASE("a receiver leaves the data of another call alone") {
  for (const std::size_t length : {10, 1000}) {
    for (const bool receiver_first : {false, true}) {
      Wire wire(64);
      wire.at_receiver.accepts = [](const CallContext& theirs) {
        return theirs.signature.count == 5;
      };
      Sending sending(collective(1, 7), pattern(length));
      Receiving receiving(collective(1, 5), length);
      if (receiver_first) wire.in.post(receiving.request);
      wire.out.post(sending.request);
      wire.pump();
      if (!receiver_first) wire.in.post(receiving.request);
      wire.pump();
      INFO("length " << length << ", receiver first " << receiver_first);
      REQUIRE(!wire.at_receiver.told.empty());
      REQUIRE(wire.at_receiver.told[0].call.signature.count == 7);
      REQUIRE(receiving.request.received == 0);
      REQUIRE(receiving.bytes == Buffer(length));
      REQUIRE(wire.in.failure().empty());  // the link itself is sound
    }
  }
}

TEST_CASE("a sender does not fill the buffer of another call") {
  Wire wire(64);
  wire.at_sender.accepts = [](const CallContext& theirs) { return theirs.signature.count == 5; };
  Sending sending(collective(1, 5), pattern(1000));
  Receiving receiving(collective(1, 7), 1000);
  SECTION("the grant comes first") {
    wire.in.post(receiving.request);
    wire.pump();
    wire.out.post(sending.request);
  }
  SECTION("the call comes first") {
    wire.out.post(sending.request);
    wire.pump();
    wire.in.post(receiving.request);
  }
  wire.pump();
  CHECK(!wire.at_sender.told.empty());
  CHECK(!sending.request.done());
  CHECK(sending.request.taken <= 64);  // at most what went ahead
  CHECK(!receiving.request.done());
}

TEST_CASE("a message without bytes still tells of its call") {
  Wire wire(64);
  const auto call = message(Operation::send, 9);
  wire.out.announce(call);
  wire.pump();
  REQUIRE(wire.at_receiver.told.size() == 1);
  CHECK(wire.at_receiver.told[0].call == call);
  CHECK(wire.is_sound());
}

TEST_CASE("what is not acknowledged yet is known") {
  SocketPair pair;
  Witness witness;
  OutgoingHalf out(1, 64, witness);
  CHECK(out.unacknowledged() == 0);
  out.connect(std::move(pair.one));
  CHECK(out.unacknowledged() == 0);
  Sending sending(collective(1), pattern(10));
  out.post(sending.request);
  out.write();
  CHECK(out.unacknowledged() > 0);  // on a Unix socket: until the peer has read it
  Stranger(std::move(pair.other)).read(1000);
  CHECK(out.unacknowledged() == 0);
}

TEST_CASE("what was read together with the last bytes is not left until more comes") {
  // Two MiB at once, all of it in the kernel, and then silence: the pieces to reduce go through the
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
  Witness witness;
  IncomingHalf half(0, 16384, witness);
  half.connect(Descriptor(::accept(listening.get(), nullptr, nullptr)));

  const std::size_t piece = most_payload_bytes - frame_header_bytes;
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
  Buffer wire;
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto header = encode({.kind = FrameKind::data,
                                .payload = static_cast<std::uint32_t>(piece),
                                .position = i * piece,
                                .call = call});
    wire.insert(wire.end(), header.begin(), header.end());
    wire.resize(wire.size() + piece);
  }
  std::thread([&] {
    for (std::size_t sent = 0; sent < wire.size();) {
      const auto done = ::write(writer.get(), wire.data() + sent, wire.size() - sent);
      if (done <= 0) return;
      sent += static_cast<std::size_t>(done);
    }
  }).join();
  // As the engine does: reads only while the socket has something.
  pollfd readable{half.fd(), POLLIN, 0};
  while (!request.done() && ::poll(&readable, 1, 300) == 1) half.read();
  CHECK(request.done());
}

}  // namespace tutti::transport::test
