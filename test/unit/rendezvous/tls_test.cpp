// TLS with a pre-shared key: over real sockets, in one thread.
#include "rendezvous/tls.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "rendezvous/secure_socket.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {
namespace {

using Key = std::array<std::byte, Tls::key_bytes>;

Key key_of(unsigned value) {
  Key key;
  key.fill(static_cast<std::byte>(value));
  return key;
}

std::pair<Descriptor, Descriptor> socket_pair() {
  std::array<int, 2> fds{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

/// Two ends and a man in the middle that sees all bytes and can change them.
struct Pair {
  Descriptor initiator_socket, initiator_far, responder_socket, responder_far;
  std::optional<Tls> initiator, responder;
  std::vector<std::byte> seen;      ///< from the initiator
  std::vector<std::byte> answered;  ///< from the responder
  std::vector<std::byte> waiting;   ///< not yet accepted by the responder's socket
  std::optional<std::size_t> bend;  ///< of the initiator's bytes, counted from now on

  explicit Pair(const Key& first = key_of(1), const Key& second = key_of(1),
                Tls::Settings settings = {}) {
    std::tie(initiator_socket, initiator_far) = socket_pair();
    std::tie(responder_socket, responder_far) = socket_pair();
    const auto context = std::make_shared<TlsContext>();
    initiator.emplace(context, initiator_socket.get(), Tls::Side::initiator, first, settings);
    responder.emplace(context, responder_socket.get(), Tls::Side::responder, second, settings);
  }

  /// Forwards what the responder's socket accepts; true if anything.
  bool pass_on() {
    if (waiting.empty()) return false;
    const auto done =
        ::send(responder_far.get(), waiting.data(), waiting.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0) waiting.erase(waiting.begin(), waiting.begin() + done);
    return done > 0;
  }

  void carry() {
    std::array<std::byte, 65536> buffer;
    for (bool moved = true; moved;) {
      moved = pass_on();
      auto got = waiting.empty() ? ::recv(initiator_far.get(), buffer.data(), buffer.size(), 0) : 0;
      if (got > 0) {
        const std::span<std::byte> bytes(buffer.data(), static_cast<std::size_t>(got));
        if (bend && *bend < bytes.size()) bytes[*bend] ^= std::byte{1};
        bend.reset();
        seen.insert(seen.end(), bytes.begin(), bytes.end());
        waiting.assign(bytes.begin(), bytes.end());
        moved = true;
      }
      got = ::recv(responder_far.get(), buffer.data(), buffer.size(), 0);
      if (got > 0) {
        REQUIRE(::send(initiator_far.get(), buffer.data(), static_cast<std::size_t>(got),
                       MSG_NOSIGNAL) == got);
        answered.insert(answered.end(), buffer.begin(), buffer.begin() + got);
        moved = true;
      }
    }
  }
  /// True if both are done.
  bool handshake() {
    auto one = Tls::Step::wait;
    auto other = Tls::Step::wait;
    for (int i = 0; i < 10; ++i) {
      if (one == Tls::Step::wait) one = initiator->handshake();
      carry();
      if (other == Tls::Step::wait) other = responder->handshake();
      carry();
    }
    return one == Tls::Step::done && other == Tls::Step::done;
  }
};

std::vector<std::byte> numbers(std::size_t count, unsigned first = 0) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((i * 131 + (i >> 8) + first) & 255U);
  }
  return bytes;
}

/// Number of encrypted records by payload size: a record adds 5 bytes of header, a kind and a tag.
std::size_t records_of(std::span<const std::byte> stream, std::size_t bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at + 5 <= stream.size();) {
    const auto length = std::to_integer<std::size_t>(stream[at + 3]) << 8 |
                        std::to_integer<std::size_t>(stream[at + 4]);
    if (length == bytes + 17) ++count;
    at += 5 + length;
  }
  return count;
}

iovec part_of(std::vector<std::byte>& bytes, std::size_t from = 0) {
  return {bytes.data() + from, bytes.size() - from};
}

/// Writes all, reading at the other end whenever the socket is full.
std::vector<std::byte> move_all(Pair& pair, std::vector<std::byte>& bytes) {
  std::vector<std::byte> arrived;
  std::vector<std::byte> room(50'000);
  std::size_t sent = 0;
  for (int idle = 0; arrived.size() < bytes.size() && idle < 100;) {
    ++idle;
    if (sent < bytes.size()) {
      const std::array<iovec, 1> out{part_of(bytes, sent)};
      const auto done = pair.initiator->write(out);
      if (done > 0) {
        sent += static_cast<std::size_t>(done);
        idle = 0;
      } else {
        REQUIRE(errno == EAGAIN);
      }
    }
    pair.carry();
    const std::array<iovec, 1> in{part_of(room)};
    const auto got = pair.responder->read(in, true);
    if (got > 0) {
      arrived.insert(arrived.end(), room.begin(), room.begin() + got);
      idle = 0;
    } else {
      REQUIRE(errno == EAGAIN);
    }
  }
  return arrived;
}

}  // namespace

TEST_CASE("a TLS link delivers all bytes and shows none of them on the wire") {
  Pair pair;
  REQUIRE(pair.handshake());
  CHECK_FALSE(pair.initiator->has_buffered_data());
  CHECK_FALSE(pair.responder->has_buffered_data());
  for (const std::size_t count : {1, 56, 16383, 16384, 16385, 200'000, 3'000'000}) {
    CAPTURE(count);
    auto bytes = numbers(count);
    pair.seen.clear();
    CHECK(move_all(pair, bytes) == bytes);
    CHECK(pair.seen.size() > bytes.size());
    if (count < 32) continue;
    const auto needle = std::span(bytes).first(32);
    CHECK(std::search(pair.seen.begin(), pair.seen.end(), needle.begin(), needle.end()) ==
          pair.seen.end());
  }
}

TEST_CASE("data refused with EAGAIN is not encrypted twice") {
  Pair pair;
  REQUIRE(pair.handshake());
  auto bytes = numbers(8'000'000);
  std::size_t sent = 0;
  bool was_full = false;
  while (sent < bytes.size() && !was_full) {
    const std::array<iovec, 1> out{part_of(bytes, sent)};
    const auto done = pair.initiator->write(out);
    if (done > 0) sent += static_cast<std::size_t>(done);
    was_full = done < 0;
  }
  REQUIRE(was_full);
  REQUIRE(errno == EAGAIN);
  std::vector<std::byte> arrived;
  std::vector<std::byte> room(100'000);
  for (int i = 0; i < 1000 && arrived.size() < bytes.size(); ++i) {
    pair.carry();
    const std::array<iovec, 1> in{part_of(room)};
    if (const auto got = pair.responder->read(in, true); got > 0) {
      arrived.insert(arrived.end(), room.begin(), room.begin() + got);
    }
    const std::array<iovec, 1> out{part_of(bytes, sent)};
    if (sent == bytes.size()) continue;
    if (const auto done = pair.initiator->write(out); done > 0) {
      sent += static_cast<std::size_t>(done);
    }
  }
  CHECK(arrived == bytes);
}

TEST_CASE("a header and its payload share a record") {
  Pair pair;
  REQUIRE(pair.handshake());
  auto header = numbers(56);
  auto payload = numbers(100, 7);
  pair.seen.clear();
  const std::array<iovec, 2> out{part_of(header), part_of(payload)};
  REQUIRE(pair.initiator->write(out) == 156);
  pair.carry();
  // A record's overhead: header 5, kind 1, tag 16.
  CHECK(pair.seen.size() == 156 + 22);
  auto first = std::vector<std::byte>(56);
  auto second = std::vector<std::byte>(200);
  const std::array<iovec, 2> in{part_of(first), part_of(second)};
  REQUIRE(pair.responder->read(in, true) == 156);
  second.resize(100);
  CHECK(first == header);
  CHECK(second == payload);
}

TEST_CASE("reading without read-ahead leaves no buffered data") {
  Pair pair;
  REQUIRE(pair.handshake());
  auto bytes = numbers(100'000);
  const std::array<iovec, 1> out{part_of(bytes)};
  REQUIRE(pair.initiator->write(out) == 100'000);
  pair.carry();
  std::vector<std::byte> arrived;
  std::vector<std::byte> room(10'000);
  const std::array<iovec, 1> in{part_of(room)};
  const auto read = [&](bool ahead) {
    const auto got = pair.responder->read(in, ahead);
    if (got > 0) arrived.insert(arrived.end(), room.begin(), room.begin() + got);
    return got;
  };
  REQUIRE(read(true) > 0);
  REQUIRE(pair.responder->has_buffered_data());
  for (int i = 0; i < 100 && pair.responder->has_buffered_data(); ++i) read(false);
  CHECK_FALSE(pair.responder->has_buffered_data());
  // All data read from the socket was returned.
  while (read(true) > 0) {
  }
  CHECK(arrived == bytes);
}

TEST_CASE("a handshake with different keys fails at both ends") {
  Pair pair(key_of(1), key_of(2));
  CHECK_FALSE(pair.handshake());
  CHECK(pair.responder->failure().find("TLS") != std::string::npos);
  CHECK(pair.initiator->failure().find("TLS") != std::string::npos);
}

TEST_CASE("a changed bit is detected and reported at both ends") {
  for (const std::size_t at : {0, 3, 5, 40, 70, 77}) {  // in a record of 78 bytes
    CAPTURE(at);
    Pair pair;
    REQUIRE(pair.handshake());
    auto bytes = numbers(56);
    const std::array<iovec, 1> out{part_of(bytes)};
    REQUIRE(pair.initiator->write(out) == 56);
    pair.bend = at;
    pair.carry();
    std::vector<std::byte> room(1000);
    const std::array<iovec, 1> in{part_of(room)};
    const auto got = pair.responder->read(in, true);
    if (at == 3) {
      // The record seems to be longer: the reader waits for the rest and never returns any of it.
      CHECK(got == -1);
      REQUIRE(pair.initiator->write(out) > 0);
      REQUIRE(pair.initiator->write(out) > 0);
      REQUIRE(pair.initiator->write(out) > 0);
      REQUIRE(pair.initiator->write(out) > 0);
      pair.carry();
      CHECK(pair.responder->read(in, true) == -1);
    } else {
      CHECK(got == -1);
    }
    CHECK(errno == EBADMSG);
    CHECK(pair.responder->failure().find("received data failed authentication") !=
          std::string::npos);
    CHECK(pair.responder->read(in, true) == -1);
    CHECK(errno == EBADMSG);
    pair.carry();
    CHECK(pair.initiator->read(in, true) == -1);
    CHECK(errno == EBADMSG);
    CHECK(pair.initiator->failure().find("the peer reported that") != std::string::npos);
  }
}

TEST_CASE("replayed TLS records are rejected") {
  Pair pair;
  REQUIRE(pair.handshake());
  auto bytes = numbers(100);
  pair.seen.clear();
  const std::array<iovec, 1> out{part_of(bytes)};
  REQUIRE(pair.initiator->write(out) == 100);
  pair.carry();
  const auto recorded = pair.seen;
  REQUIRE(::send(pair.responder_far.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL) > 0);
  std::vector<std::byte> room(1000);
  const std::array<iovec, 1> in{part_of(room)};
  CHECK(pair.responder->read(in, true) == 100);
  CHECK(pair.responder->read(in, true) == -1);
  CHECK(errno == EBADMSG);
}

TEST_CASE("the key is updated after bytes_per_key in either direction") {
  Pair pair(key_of(1), key_of(1), {.bytes_per_key = 50'000});
  REQUIRE(pair.handshake());
  pair.seen.clear();
  pair.answered.clear();
  for (unsigned round = 0; round < 20; ++round) {
    auto bytes = numbers(30'000, round);
    CHECK(move_all(pair, bytes) == bytes);
    auto back = numbers(30'000, round + 1);
    const std::array<iovec, 1> out{part_of(back)};
    REQUIRE(pair.responder->write(out) == 30'000);
    pair.carry();
    std::vector<std::byte> room(40'000);
    const std::array<iovec, 1> in{part_of(room)};
    REQUIRE(pair.initiator->read(in, true) == 30'000);
    room.resize(30'000);
    CHECK(room == back);
  }
  // Before each third block. A KeyUpdate has five bytes, a length that no block's record has.
  CHECK(records_of(pair.seen, 5) == 9);
  CHECK(records_of(pair.answered, 5) == 9);
}

TEST_CASE("end of file is reported after the data before it") {
  Pair pair;
  REQUIRE(pair.handshake());
  auto bytes = numbers(100);
  const std::array<iovec, 1> out{part_of(bytes)};
  REQUIRE(pair.initiator->write(out) == 100);
  pair.carry();
  pair.responder_far.reset();
  std::vector<std::byte> room(1000);
  const std::array<iovec, 1> in{part_of(room)};
  CHECK(pair.responder->read(in, true) == 100);
  CHECK(pair.responder->read(in, true) == 0);
  CHECK(pair.responder->read(in, true) == 0);
}

TEST_CASE("a connection error is sticky and not an orderly end") {
  Pair pair;
  REQUIRE(pair.handshake());
  auto bytes = numbers(100);
  const std::array<iovec, 1> out{part_of(bytes)};
  REQUIRE(pair.initiator->write(out) == 100);
  pair.carry();
  // Closing with unread data sends a reset.
  REQUIRE(pair.responder->write(out) == 100);
  pair.responder_far.reset();
  std::vector<std::byte> room(1000);
  const std::array<iovec, 1> in{part_of(room)};
  CHECK(pair.responder->read(in, true) == 100);
  for (int i = 0; i < 2; ++i) {
    CHECK(pair.responder->read(in, true) == -1);
    CHECK(errno == ECONNRESET);
  }
  // A reset is not reported as tampering.
  CHECK(pair.responder->failure().empty());
}

TEST_CASE("a client without a key gets no TLS link") {
  auto [socket, far] = socket_pair();
  Tls responder(std::make_shared<TlsContext>(), socket.get(), Tls::Side::responder, key_of(1));
  const std::string_view nonsense = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  REQUIRE(::send(far.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL) > 0);
  CHECK(responder.handshake() == Tls::Step::failed);
  CHECK(responder.failure().find("TLS") != std::string::npos);
}

}  // namespace tutti::rendezvous::test
