// Dialer over real sockets.
#include "rendezvous/dialer.hpp"

#include "peer_exchange.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Listens and never accepts.
struct SilentServer {
  std::vector<Listener> listeners = open_listeners({});
  [[nodiscard]] const SocketAddress& address() const { return listeners[0].address; }
};

/// An address where no process listens any more.
SocketAddress closed_address() {
  return SilentServer().address();
}

/// Sends something other than a hello to each client.
struct RudeServer {
  Reactor& reactor;
  std::vector<Listener> listeners = open_listeners({});
  std::string greeting;
  std::vector<Descriptor> visitors;

  RudeServer(Reactor& loop, std::string words) : reactor(loop), greeting(std::move(words)) {
    const int fd = listeners[0].socket.get();
    reactor.add(fd, 1, [this, fd](std::uint32_t) {
      Descriptor visitor(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
      ::send(visitor.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
      visitors.push_back(std::move(visitor));
    });
  }
  RudeServer(const RudeServer&) = delete;
  RudeServer& operator=(const RudeServer&) = delete;
  ~RudeServer() { reactor.remove(listeners[0].socket.get()); }
  [[nodiscard]] const SocketAddress& address() const { return listeners[0].address; }
};

}  // namespace

TEST_CASE("a dialer connects and both ends are authenticated") {
  Reactor reactor;
  Host host(reactor, member(0));
  Caller caller(reactor, member(3));
  caller.dial(0, {host.address}, 3s, LinkKind::control);
  REQUIRE(run_until(reactor, [&] { return caller.is_over() && !host.connections.empty(); }));
  REQUIRE(caller.connection);
  CHECK(caller.failure.empty());
  CHECK(caller.connection->peer == 0);
  CHECK(caller.connection->kind == LinkKind::control);
  REQUIRE(host.connections.size() == 1);
  CHECK(host.connections[0].peer == 3);
  CHECK(host.connections[0].kind == LinkKind::control);
  // Bytes pass from one end to the other.
  const char sent = 'x';
  char received = 0;
  CHECK(::send(caller.connection->socket.get(), &sent, 1, 0) == 1);
  CHECK(run_until(reactor, [&] {
    return ::recv(host.connections[0].socket.get(), &received, 1, MSG_DONTWAIT) == 1;
  }));
  CHECK(received == 'x');
}

TEST_CASE("several ranks dial at once") {
  Reactor reactor;
  Host host(reactor, member(0));
  Caller one(reactor, member(1));
  Caller two(reactor, member(2));
  Caller three(reactor, member(3));
  for (auto* caller : {&one, &two, &three}) caller->dial(0, {host.address}, 3s);
  CHECK(run_until(reactor, [&] { return host.connections.size() == 3; }));
  CHECK(run_until(reactor, [&] { return one.is_over() && two.is_over() && three.is_over(); }));
  CHECK(one.connection);
  CHECK(two.connection);
  CHECK(three.connection);
}

TEST_CASE("a dialer without the secret fails at the deadline with an error for each address") {
  Reactor reactor;
  Host host(reactor, member(0));
  Caller caller(reactor, member(1, 99));
  const auto start = Reactor::Clock::now();
  caller.dial(0, {host.address}, 200ms);
  REQUIRE(run_until(reactor, [&] { return caller.is_over(); }));
  const auto elapsed = Reactor::Clock::now() - start;
  CHECK(elapsed >= 190ms);
  CHECK(elapsed < 1s);
  CHECK(caller.calls == 1);
  CHECK(!caller.connection);
  INFO(caller.failure);
  CHECK(contains(caller.failure, host.address.text()));
  CHECK(contains(caller.failure, "it closed the connection"));
  CHECK(host.connections.empty());
}

TEST_CASE("a connection to another rank than the one dialed fails") {
  Reactor reactor;
  Host host(reactor, member(2));
  Caller caller(reactor, member(1));
  caller.dial(0, {host.address}, 150ms);
  REQUIRE(run_until(reactor, [&] { return caller.is_over(); }));
  CHECK(!caller.connection);
  CHECK(host.connections.empty());
}

TEST_CASE("a refusing address is reported with the reason") {
  Reactor reactor;
  Caller caller(reactor, member(1));
  const auto address = closed_address();
  caller.dial(0, {address}, 150ms);
  REQUIRE(run_until(reactor, [&] { return caller.is_over(); }));
  INFO(caller.failure);
  CHECK(contains(caller.failure, address.text() + ": Connection refused"));
}

TEST_CASE("a dial without an address fails at once") {
  Reactor reactor;
  Caller caller(reactor, member(1));
  caller.dial(0, {}, 10s);
  REQUIRE(caller.is_over());
  CHECK(!caller.connection);
  CHECK(contains(caller.failure, "no address in common"));
}

TEST_CASE("a candidate that refuses, is silent or uses another protocol is skipped") {
  Reactor reactor;
  Host host(reactor, member(0));
  Caller caller(reactor, member(1));
  SECTION("no process listens") {
    caller.dial(0, {closed_address(), host.address}, 3s);
    CHECK(run_until(
        reactor, [&] { return caller.is_over(); }, 400ms));
  }
  SECTION("a web server") {
    RudeServer server(reactor, std::string("HTTP/1.1 400 Bad Request\r\n") + std::string(40, ' '));
    caller.dial(0, {server.address(), host.address}, 3s);
    CHECK(run_until(
        reactor, [&] { return caller.is_over(); }, 400ms));
  }
  SECTION("a silent server") {
    SilentServer server;
    caller.dial(0, {server.address(), host.address}, 3s);
    CHECK(run_until(
        reactor, [&] { return caller.is_over(); }, 1500ms));
  }
  SECTION("another rank, as behind an address that two hosts share") {
    Host other(reactor, member(3));
    caller.dial(0, {other.address, host.address}, 3s);
    CHECK(run_until(
        reactor, [&] { return caller.is_over(); }, 400ms));
  }
  SECTION("the dialing rank itself") {
    Host itself(reactor, member(1));
    caller.dial(0, {itself.address, host.address}, 3s);
    CHECK(run_until(
        reactor, [&] { return caller.is_over(); }, 400ms));
    CHECK(itself.connections.empty());
  }
  REQUIRE(caller.connection);
  CHECK(caller.connection->peer == 0);
  CHECK(run_until(reactor, [&] { return host.connections.size() == 1; }));
}

TEST_CASE("a peer that starts late is found") {
  Reactor reactor;
  Caller caller(reactor, member(1));
  auto listeners = open_listeners({});
  const auto address = listeners[0].address;
  listeners.clear();
  caller.dial(0, {address}, 3s);
  run_until(
      reactor, [&] { return caller.is_over(); }, 100ms);
  REQUIRE(!caller.is_over());
  // The same port again, now with a rank listening.
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  REQUIRE(::bind(socket.get(), address.get(), address.length()) == 0);
  REQUIRE(::listen(socket.get(), 16) == 0);
  const auto self = member(0);
  Log log(LogLevel::quiet, {});
  std::vector<Listener> late;
  late.push_back({std::move(socket), address});
  int accepted = 0;
  const Acceptor acceptor(
      reactor, self, std::move(late), log, [](int, LinkKind) { return true; },
      [&](Connection) { ++accepted; });
  CHECK(run_until(reactor, [&] { return caller.is_over(); }));
  CHECK(caller.connection);
  CHECK(accepted == 1);
}

TEST_CASE("every failed candidate is reported") {
  Reactor reactor;
  Caller caller(reactor, member(1));
  RudeServer server(reactor, std::string(hello_bytes, 'x'));
  const auto closed = closed_address();
  caller.dial(0, {closed, server.address()}, 100ms);
  REQUIRE(run_until(reactor, [&] { return caller.is_over(); }));
  INFO(caller.failure);
  CHECK(contains(caller.failure, closed.text() + ": Connection refused"));
  CHECK(contains(caller.failure, server.address().text() + ": it did not send a tutti handshake"));
}

TEST_CASE("a cancelled dial runs no callback, and another one goes on") {
  Reactor reactor;
  Host host(reactor, member(0));
  Caller caller(reactor, member(1));
  caller.dial(0, {closed_address()}, 3s);
  int others = 0;
  caller.dialer.dial(
      0, LinkKind::control, {host.address}, Deadline::after(3s),
      [&](std::optional<Connection> made, const std::string&) { others += made ? 1 : 0; });
  caller.dialer.cancel(0, LinkKind::data);
  CHECK(run_until(reactor, [&] { return others == 1; }));
  CHECK(caller.calls == 0);
}

TEST_CASE("a destroyed dialer runs no callback") {
  Reactor reactor;
  Host host(reactor, member(0));
  int calls = 0;
  {
    const auto self = member(1);
    Dialer dialer(reactor, self);
    dialer.dial(0, LinkKind::data, {host.address}, Deadline::after(3s),
                [&](std::optional<Connection>, const std::string&) { ++calls; });
    reactor.run_once(10ms);
  }
  run_until(
      reactor, [] { return false; }, 50ms);
  CHECK(calls == 0);
}

}  // namespace tutti::rendezvous::test
