// Options of a job's sockets: ports and short messages.
#include "rendezvous/tcp_socket.hpp"

#include <netinet/tcp.h>

#include "peer_exchange.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

namespace {

int option(int socket, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  REQUIRE(::getsockopt(socket, level, name, &value, &length) == 0);
  return value;
}

SocketAddress own_address(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address));
}

/// Without SO_REUSEADDR.
bool binds_alone(const SocketAddress& address) {
  const Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::bind(socket.get(), address.get(), address.length()) == 0;
}

bool can_listen(const SocketAddress& address) {
  try {
    (void)open_listeners({}, SocketFamily::v4, {address.port(), address.port()});
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// A connection made by a handshake of two ranks.
struct Pair {
  Reactor reactor;
  std::optional<Host> host;
  Caller caller{reactor, member(3)};

  explicit Pair(LinkKind kind = LinkKind::control) {
    host.emplace(reactor, member(0));
    caller.dial(0, {host->address}, 3s, kind);
    REQUIRE(run_until(reactor, [&] { return caller.is_over() && !host->connections.empty(); }));
    REQUIRE(caller.connection);
  }
};

}  // namespace

TEST_CASE("short messages are sent without delay by either end") {
  for (const auto kind : {LinkKind::control, LinkKind::data}) {
    const Pair pair(kind);
    CHECK(option(pair.caller.connection->socket.get(), IPPROTO_TCP, TCP_NODELAY) != 0);
    CHECK(option(pair.host->connections[0].socket.get(), IPPROTO_TCP, TCP_NODELAY) != 0);
  }
}

TEST_CASE("a closed connection does not block its port for listeners") {
  Pair pair;
  SocketAddress port;
  SECTION("of the client") {
    port = own_address(pair.caller.connection->socket.get());
    pair.caller.connection.reset();
    pair.host.reset();
  }
  SECTION("of the server") {
    port = pair.host->address;
    pair.host.reset();
    pair.caller.connection.reset();
  }
  // Check that the kernel does keep it: otherwise the test would show nothing.
  CHECK_FALSE(binds_alone(port));
  CHECK(can_listen(port));
}

TEST_CASE("a socket connected to itself is detected and closed without TIME-WAIT") {
  auto socket = make_client_socket(AF_INET);
  SocketAddress itself;
  for (int port = 20'000; itself.port() == 0 && port < 30'000; ++port) {
    auto candidate = SocketAddress::loopback_v4();
    candidate.set_port(static_cast<std::uint16_t>(port));
    if (::bind(socket.get(), candidate.get(), candidate.length()) == 0) itself = candidate;
  }
  CHECK_FALSE(is_connected_to_itself(socket.get()));
  const int result = ::connect(socket.get(), itself.get(), itself.length());
  REQUIRE((result == 0 || errno == EINPROGRESS));
  CHECK(is_connected_to_itself(socket.get()));
  reset(socket);
  CHECK_FALSE(socket);
  CHECK(binds_alone(itself));

  const Pair pair;
  CHECK_FALSE(is_connected_to_itself(pair.caller.connection->socket.get()));
}

}  // namespace tutti::rendezvous::test
