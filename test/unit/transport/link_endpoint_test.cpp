// The rings and the socket of a link between ranks that share memory.
#include "transport/link_endpoint.hpp"

#include <array>
#include <cerrno>

#include "host.hpp"
#include "support/catch.hpp"

namespace tutti::transport::test {
namespace {

template <class Bytes>
std::array<iovec, 1> part(Bytes& bytes) {
  return {{{bytes.data(), bytes.size()}}};
}

}  // namespace

TEST_CASE("a link of ranks that share memory uses its rings, both ways") {
  Host host;
  auto to = host.dial();
  auto from = host.accept();
  REQUIRE(to.is_negotiated());
  CHECK(!from.is_negotiated());
  std::array<std::byte, 5> bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  CHECK(from.write(part(bytes)) == -1);
  CHECK(errno == EAGAIN);
  REQUIRE(from.negotiate());
  REQUIRE(from.is_negotiated());
  REQUIRE(from.has_rings());

  std::array<std::byte, 8> got{};
  CHECK(from.read(part(got)) == -1);
  CHECK(errno == EAGAIN);
  CHECK(to.write(part(bytes)) == 5);
  CHECK(from.has_input());
  CHECK(from.read(part(got)) == 5);
  CHECK(got[2] == bytes[2]);
  CHECK(from.write(part(bytes)) == 5);
  CHECK(to.read(part(got)) == 5);
  CHECK(!to.has_input());
}

TEST_CASE("if the dialer has no memory, the link uses the socket") {
  Host host;
  auto to = host.dial(false);
  auto from = host.accept();
  REQUIRE(from.negotiate());
  REQUIRE(from.is_negotiated());
  CHECK(!from.has_rings());
  CHECK(!to.has_rings());
  std::array<std::byte, 3> bytes{std::byte{7}, std::byte{8}, std::byte{9}};
  CHECK(to.write(part(bytes)) == 3);
  std::array<std::byte, 8> got{};
  CHECK(from.read(part(got)) == 3);
  CHECK(got[1] == bytes[1]);
}

TEST_CASE("an invalid first byte, or a peer that closes before it, ends a link") {
  for (const bool says_something : {true, false}) {
    Host host;
    auto from = host.accept();
    {
      RawPeer raw_peer(std::move(host.sockets.one));
      const std::array<std::byte, 1> wrong{std::byte{'x'}};
      if (says_something) raw_peer.write(wrong);
      if (!says_something) raw_peer.close();
      CHECK(!from.negotiate());
      CHECK(errno == (says_something ? EPROTO : ECONNRESET));
    }
  }
}

TEST_CASE("only a sleeping peer is woken by its socket, and once") {
  Host host;
  auto to = host.dial();
  auto from = host.accept();
  REQUIRE(from.negotiate());
  std::array<std::byte, 64> buffer{};
  std::array<std::byte, 1> byte{};
  const auto rings = [&] {
    const auto got = ::recv(from.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    return got < 0 ? 0 : got;
  };
  CHECK(to.write(part(byte)) == 1);
  CHECK(rings() == 0);
  host.second->sleeps_in_epoll(1).store(1);
  CHECK(to.write(part(byte)) == 1);
  CHECK(to.write(part(byte)) == 1);
  CHECK(rings() == 1);
  CHECK(host.second->sleeps_in_epoll(1).load() == 0);
  // The writer sleeps, too, when the ring is full.
  host.first->sleeps_in_epoll(0).store(1);
  CHECK(from.read(part(buffer)) == 3);
  CHECK(::recv(to.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT) == 1);
}

TEST_CASE("data in the ring is read before the writer's end is reported") {
  Host host;
  auto from = host.accept();
  {
    auto to = host.dial();
    REQUIRE(from.negotiate());
    std::array<std::byte, 5> bytes{};
    REQUIRE(to.write(part(bytes)) == 5);
  }
  from.drain_doorbell();
  CHECK(from.is_closed());
  std::array<std::byte, 5> got{};
  CHECK(from.read(part(got)) == 5);
  CHECK(from.read(part(got)) == 0);
  CHECK(from.write(part(got)) == -1);
  CHECK(errno == EPIPE);
}

}  // namespace tutti::transport::test
