// Connections of a job whose links are encrypted: over real sockets, in one thread.
#include <array>

#include "peer_exchange.hpp"
#include "rendezvous/tls.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {
namespace {

Membership encrypted_member(int rank, std::shared_ptr<const TlsContext> tls) {
  auto self = member(rank);
  self.tls = std::move(tls);
  return self;
}

}  // namespace

TEST_CASE("all links of a process share the TLS context of its membership") {
  Reactor reactor;
  const auto tls = std::make_shared<const TlsContext>();
  const auto others = std::make_shared<const TlsContext>();
  {
    Host host(reactor, encrypted_member(1, tls));
    const auto before = tls.use_count();
    for (const int rank : {2, 3}) {
      Caller caller(reactor, encrypted_member(rank, others));
      caller.dial(1, {host.address}, 3s);
      REQUIRE(run_until(reactor, [&] {
        return caller.is_over() && host.connections.size() == static_cast<std::size_t>(rank - 1);
      }));
      REQUIRE(caller.connection);
      CHECK(caller.connection->socket.is_encrypted());
      // References of the test, the membership and the link.
      CHECK(others.use_count() == 3);
      CHECK(rejection_reason(caller.self, *caller.connection).empty());
    }
    CHECK(tls.use_count() == before + 2);
    for (const auto& connection : host.connections) {
      CHECK(connection.socket.is_encrypted());
      CHECK(rejection_reason(host.self, connection).empty());
    }
  }
  CHECK(tls.use_count() == 1);
}

TEST_CASE("a plain connection is rejected in a job whose links are encrypted") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const Descriptor far(ends[1]);
  for (const auto kind : {LinkKind::control, LinkKind::data}) {
    const Connection plain{SecureSocket::plain(Descriptor(::dup(ends[0]))), 2, kind};
    const auto reason =
        rejection_reason(encrypted_member(1, std::make_shared<TlsContext>()), plain);
    CHECK(reason.find("TUTTI_ENCRYPT=1") != std::string_view::npos);
    CHECK(rejection_reason(member(1), plain).empty());
  }
  const Descriptor near(ends[0]);
}

}  // namespace tutti::rendezvous::test
