// Unacknowledged data of TCP connections.
#include "rendezvous/unacknowledged.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "addresses.hpp"
#include "base/descriptor.hpp"
#include "rendezvous/tcp_socket.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

namespace {

struct Pair {
  Descriptor dialed;
  Descriptor accepted;
};

template <class Prepare>
Pair connect(const SocketAddress& where, Prepare prepare) {
  const Descriptor listener(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listener.get(), where.get(), where.length()) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length) == 0);
  Pair pair{Descriptor(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)), Descriptor()};
  prepare(pair.dialed.get());
  REQUIRE(::connect(pair.dialed.get(), reinterpret_cast<sockaddr*>(&bound), length) == 0);
  pair.accepted = Descriptor(::accept(listener.get(), nullptr, nullptr));
  REQUIRE(pair.accepted);
  return pair;
}

int largest_segment(const Descriptor& socket) {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  ::getsockopt(socket.get(), IPPROTO_TCP, TCP_MAXSEG, &bytes, &length);
  return bytes;
}

}  // namespace

TEST_CASE("non-connections and connections with a slow reader have no unacknowledged data") {
  CHECK(!find_unacknowledged(-1));
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const Descriptor reader(ends[0]);
  const Descriptor writer(ends[1]);
  CHECK(!find_unacknowledged(reader.get()));
  const auto pair = connect(SocketAddress::loopback_v4(), [](int) {});
  const std::string data(1 << 16, 'x');
  while (::send(pair.dialed.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
  }
  CHECK(!find_unacknowledged(pair.dialed.get()));
  CHECK(describe_unacknowledged_data().empty());
}

TEST_CASE("both ends of a connection can be limited to small packets") {
  auto pair =
      connect(SocketAddress::loopback_v4(), [](int socket) { limit_packet_size(socket, AF_INET); });
  for (const auto* end : {&pair.dialed, &pair.accepted}) {
    CHECK(largest_segment(*end) + 40 <= static_cast<int>(small_packet_bytes));
    CHECK(largest_segment(*end) > 1000);
  }
  const auto plain = connect(SocketAddress::loopback_v4(), [](int) {});
  CHECK(largest_segment(plain.accepted) > static_cast<int>(small_packet_bytes));
}

TEST_CASE("unacknowledged data is described with both ends and the remedy") {
  const Unacknowledged lost{.bytes = 4344, .times = 4, .packet_bytes = 1500, .is_ipv6 = false};
  CHECK(lost.is_large());
  CHECK(describe(lost, "a", "b") ==
        "4344 bytes that a has sent to b are not acknowledged after 4 retransmissions");
  CHECK(mtu_remedy(lost, "a", "b").find("ping -M do -s 1472 b on a") != std::string::npos);
  const Unacknowledged on_ipv6{.bytes = 4344, .times = 4, .packet_bytes = 9000, .is_ipv6 = true};
  CHECK(mtu_remedy(on_ipv6, "a", "b").find("ping -M do -s 8952 b on a") != std::string::npos);
  CHECK(
      !Unacknowledged{.bytes = 100, .times = 4, .packet_bytes = 152, .is_ipv6 = false}.is_large());
}

}  // namespace tutti::rendezvous::test
