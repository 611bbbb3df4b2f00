// Listeners at ports of the kernel and of a range.
#include "rendezvous/listener.hpp"

#include "addresses.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::rendezvous::test {

namespace {

/// A free port followed by free ports, as far as can be known.
PortRange free_range(std::uint16_t count) {
  for (std::uint16_t first = 20011; first < 30000; first = static_cast<std::uint16_t>(first + 97)) {
    const PortRange range{first, static_cast<std::uint16_t>(first + count - 1)};
    try {
      std::vector<std::vector<Listener>> held;
      for (int i = 0; i < count; ++i) held.push_back(open_listeners({}, SocketFamily::v4, range));
      return range;
    } catch (const Error&) {
      continue;
    }
  }
  FAIL("no free ports");
  return {};
}

}  // namespace

TEST_CASE("ranks of one host share a range of ports until it is exhausted") {
  const auto range = free_range(3);
  std::vector<std::vector<Listener>> ranks;
  for (int i = 0; i < 3; ++i) {
    ranks.push_back(open_listeners({}, SocketFamily::v4, range));
    REQUIRE(ranks.back().size() == 1);
    CHECK(ranks.back()[0].address.port() == range.first + i);
  }
  try {
    (void)open_listeners({}, SocketFamily::v4, range);
    FAIL("no error");
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.code() == ErrorCode::system);
    CHECK(error.sentence().starts_with("TUTTI_PORT_RANGE=" + range.text() + " is exhausted"));
  }
  // A closed listener frees its port at once.
  ranks.erase(ranks.begin() + 1);
  CHECK(open_listeners({}, SocketFamily::v4, range)[0].address.port() == range.first + 1);
}

TEST_CASE("each address gets a port of the range") {
  const auto range = free_range(2);
  const std::vector<Interface> two{{"lo", v4("127.0.0.1"), 8}, {"lo", v4("127.0.0.2"), 8}};
  const auto listeners = open_listeners(two, SocketFamily::any, range);
  REQUIRE(listeners.size() == 2);
  for (const auto& listener : listeners) CHECK(listener.address.port() == range.first);
}

TEST_CASE("with IPv6 only, no listener has an IPv4 address") {
  // Without IPv6 there is nothing to listen at.
  try {
    for (const auto& listener : open_listeners({}, SocketFamily::v6)) {
      CHECK(listener.address.family() == AF_INET6);
    }
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::system);
  }
}

}  // namespace tutti::rendezvous::test
