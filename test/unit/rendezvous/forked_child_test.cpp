// Unfinished connections in a process that forks a long-lived child.
#include <thread>

#include "peer_exchange.hpp"
#include "store/root_side.hpp"
#include "support/catch.hpp"
#include "support/forked_child.hpp"

namespace tutti::rendezvous::test {
namespace {

using tutti::test::ForkedChild;

/// True if the other end of `connection` is closed in all processes.
bool is_closed(int connection) {
  char byte = 0;
  const auto got = ::recv(connection, &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/// True if a process listens at loopback's `port`.
bool is_open(std::uint16_t port) {
  auto address = SocketAddress::loopback_v4();
  address.set_port(port);
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(socket.get(), address.get(), address.length()) == 0;
}

}  // namespace

TEST_CASE("a forked child does not inherit an unauthenticated connection") {
  Reactor reactor;
  Host host(reactor, member(0));
  Visitor visitor(host.address);
  REQUIRE(run_until(reactor, [&] { return !visitor.is_dropped() && visitor.heard() > 0; }));
  const ForkedChild child;
  host.acceptor.reset();
  CHECK(run_until(reactor, [&] { return visitor.is_dropped(); }));
}

TEST_CASE("a forked child does not inherit an unanswered dial") {
  Reactor reactor;
  const auto listeners = open_listeners({});
  std::optional<Caller> caller(std::in_place, reactor, member(1));
  caller->dial(0, {listeners[0].address}, 10s);
  Descriptor accepted;
  REQUIRE(run_until(reactor, [&] {
    accepted = Descriptor(
        ::accept4(listeners[0].socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    return static_cast<bool>(accepted);
  }));
  const ForkedChild child;
  caller.reset();
  CHECK(run_until(reactor, [&] { return is_closed(accepted.get()); }));
}

TEST_CASE("a forked child does not inherit the port where rank 0 waits for the other ranks") {
  const auto address = open_listeners({})[0].address;
  const store::StoreAddress store_address{.host = "127.0.0.1", .port = address.port()};
  std::thread root([&] {
    Log log(LogLevel::quiet, {});
    CHECK_THROWS_AS(
        store::RootSide(member(0), 2, store_address, {address}, log, Deadline::after(2s)), Error);
  });
  const auto deadline = Deadline::after(2s);
  while (!is_open(address.port()) && !deadline.expired()) std::this_thread::sleep_for(1ms);
  {
    const ForkedChild child;
    root.join();
    CHECK(!is_open(address.port()));
  }
}

}  // namespace tutti::rendezvous::test
