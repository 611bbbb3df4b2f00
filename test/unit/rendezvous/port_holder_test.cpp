// Owners of ports, from the kernel's tables.
#include "rendezvous/port_holder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "peer_exchange.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

namespace {

// Tables of a little-endian machine; addresses are words in host byte order.
const char* const v4_table =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 "
    "1525 1 0 100\n"
    "   1: 0100007F:969D 0100007F:EDA0 06 00000000:00000000 03:000003A3 00000000     0        0 0 "
    "3 0\n"
    "   2: 0100007F:969D 0200007F:0016 01 00000000:00000000 00:00000000 00000000    12        0 99 "
    "1 0\n"
    "   3: 0100007F:96 nonsense\n"
    "   4: 0100007F:0400 0200007F:0016 06 00000000:00000000 00:00000000 00000000    12        0 0 "
    "1 0";
const char* const v6_table =
    "  sl  local_address                         remote_address                        st "
    "tx_queue\n"
    "   0: 00000000000000000000000001000000:0401 00000000000000000000000000000000:0000 0A "
    "00000000:00000000 00:00000000 00000000     0        0 31 1 0\n"
    "   1: 0000000000000000FFFF00000100007F:0402 0000000000000000FFFF00000100007F:9757 01 "
    "00000000:00000000 00:00000000 00000000     0        0 32 1 0\n";

SocketAddress loopback(int port) {
  auto address = SocketAddress::loopback_v4();
  address.set_port(static_cast<std::uint16_t>(port));
  return address;
}

}  // namespace

TEST_CASE("the kernel's tables of sockets are parsed") {
  const auto v4 = parse_tcp_table(v4_table);
  REQUIRE(v4.size() == 4);
  CHECK(v4[0].local.text() == "0.0.0.0:2024");
  CHECK(v4[0].state == ListedSocket::State::listening);
  CHECK(v4[0].uid == 7);
  CHECK(v4[0].inode == 1525);
  CHECK(v4[1].local.text() == "127.0.0.1:38557");
  CHECK(v4[1].peer.text() == "127.0.0.1:60832");
  CHECK(v4[1].state == ListedSocket::State::time_wait);
  const auto v6 = parse_tcp_table(v6_table);
  REQUIRE(v6.size() == 2);
  CHECK(v6[0].local.text() == "[::1]:1025");
  CHECK(v6[1].local.text() == "127.0.0.1:1026");  // an IPv4 address of an IPv6 socket
  CHECK(parse_tcp_table("").empty());
  CHECK(parse_tcp_table("a\nb c d e f g h i j k\n").empty());
}

TEST_CASE("a listener is preferred to a connection, and that to TIME-WAIT") {
  const auto sockets = parse_tcp_table(v4_table);
  CHECK(find_holder(sockets, loopback(2024)) == &sockets[0]);  // at all addresses
  CHECK(find_holder(sockets, loopback(38557)) == &sockets[2]);
  CHECK(find_holder(sockets, loopback(1024)) == &sockets[3]);
  CHECK(find_holder(sockets, loopback(1025)) == nullptr);
  CHECK(find_holder(sockets, SocketAddress::parse("127.0.0.9").value()) == nullptr);
}

TEST_CASE("the owner of a port on this host is described") {
  auto listeners = open_listeners({});
  const auto address = listeners[0].address;
  CHECK(describe_holder(address) ==
        fmt::format("pid {} (unit_rendezvous) listens there", ::getpid()));
  std::optional<Visitor> visitor(address);
  Descriptor accepted(::accept4(listeners[0].socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(accepted);
  listeners.clear();
  CHECK(describe_holder(address).starts_with(
      fmt::format("a connection of pid {} (unit_rendezvous) to 127.0.0.1:", ::getpid())));
  accepted.reset();
  visitor.reset();
  const auto closed = describe_holder(address);
  CHECK(closed.starts_with("a connection to 127.0.0.1:"));
  CHECK(closed.ends_with("that is closed holds the port for up to a minute (TIME-WAIT)"));
  // A socket that is only bound is in no table.
  const Descriptor bound(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto any = SocketAddress::loopback_v4();
  REQUIRE(::bind(bound.get(), any.get(), any.length()) == 0);
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  REQUIRE(::getsockname(bound.get(), reinterpret_cast<sockaddr*>(&name), &length) == 0);
  CHECK(describe_holder(SocketAddress(reinterpret_cast<const sockaddr*>(&name))) ==
        "another program has the port");
}

TEST_CASE("ephemeral ports cause a warning unless they are reserved") {
  CHECK(is_reserved("29500", 29500));
  CHECK(is_reserved("1,29500-29510,7\n", 29510));
  CHECK(is_reserved("1,2,7\n", 7));
  CHECK_FALSE(is_reserved("1,29500-29510,7\n", 29511));
  CHECK_FALSE(is_reserved("\n", 1));
  CHECK_FALSE(is_reserved("", 1));
  CHECK_FALSE(is_reserved("-5,5-", 5));
  const auto range = ephemeral_ports();
  REQUIRE(range.is_set());
  CHECK(ephemeral_port_warning(range.first - 1).empty());
  CHECK(ephemeral_port_warning(range.last + 1).empty());
}

}  // namespace tutti::rendezvous::test
