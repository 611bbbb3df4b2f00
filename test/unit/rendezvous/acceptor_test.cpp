// Acceptor against unauthenticated connections.
#include "rendezvous/acceptor.hpp"

#include <deque>
#include <random>

#include "peer_exchange.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

namespace {

/// A member can still connect.
void check_still_open(Reactor& reactor, Host& host, int rank = 1) {
  const auto before = host.connections.size();
  Caller caller(reactor, member(rank));
  caller.dial(0, {host.address}, 3s);
  CHECK(run_until(reactor,
                  [&] { return caller.is_over() && host.connections.size() == before + 1; }));
  CHECK(caller.connection);
}

}  // namespace

TEST_CASE("clients that send anything else are dropped and receive at most a hello") {
  Reactor reactor;
  Host host(reactor, member(0));
  std::mt19937 random(1);
  std::vector<std::byte> noise(5000);
  for (auto& byte : noise) byte = static_cast<std::byte>(random());
  Visitor http(host.address);
  http.say(
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something that is long enough\r\n"
      "Accept: */*\r\nConnection: close\r\n\r\n");
  Visitor random_bytes(host.address);
  random_bytes.say(noise);
  Visitor ones(host.address);
  ones.say(std::vector<std::byte>(16, std::byte{0xFF}));
  ones.say(std::vector<std::byte>(proof_bytes, std::byte{0xFF}));
  Visitor echo(host.address);
  echo.say(make_hello({}));
  echo.say(std::vector<std::byte>(proof_bytes));
  for (auto* visitor : {&http, &random_bytes, &ones, &echo}) {
    CHECK(run_until(
        reactor, [&] { return visitor->is_dropped(); }, 1s));
    CHECK(visitor->heard() <= hello_bytes);
  }
  CHECK(host.connections.empty());
  check_still_open(reactor, host);
}

TEST_CASE("a client that disconnects at once leaves nothing behind") {
  Reactor reactor;
  Host host(reactor, member(0));
  for (int i = 0; i < 200; ++i) {
    Visitor visitor(host.address);
    if (i % 2 == 0) visitor.say("x");
    reactor.run_once(0ms);
  }
  check_still_open(reactor, host);
}

TEST_CASE("a silent client and a slow one are dropped after two seconds") {
  Reactor reactor;
  Host host(reactor, member(0));
  const auto start = Reactor::Clock::now();
  Visitor silent(host.address);
  Visitor trickling(host.address);
  Visitor short_of_words(host.address);
  short_of_words.say(std::vector<std::byte>(16, std::byte{0xFF}));
  std::size_t said = 0;
  check_still_open(reactor, host);  // meanwhile
  const bool are_dropped = run_until(
      reactor,
      [&] {
        const auto elapsed = Reactor::Clock::now() - start;
        if (elapsed > said * 50ms && said < 30) {
          trickling.say("x");
          ++said;
        }
        return silent.is_dropped() && trickling.is_dropped() && short_of_words.is_dropped();
      },
      4s);
  CHECK(are_dropped);
  const auto elapsed = Reactor::Clock::now() - start;
  CHECK(elapsed >= 1900ms);
  CHECK(elapsed < 3s);
  CHECK(said > 10);
}

TEST_CASE("with too many silent clients the oldest is dropped and a member can connect") {
  Reactor reactor;
  Host host(reactor, member(0));
  std::deque<Visitor> strangers;
  for (std::size_t i = 0; i < Acceptor::max_pending; ++i) {
    strangers.emplace_back(host.address);
    reactor.run_once(10ms);
  }
  reactor.run_once(0ms);
  CHECK(!strangers[0].is_dropped());
  strangers.emplace_back(host.address);
  CHECK(run_until(
      reactor, [&] { return strangers[0].is_dropped(); }, 1s));
  CHECK(!strangers[1].is_dropped());
  check_still_open(reactor, host);
  CHECK(strangers[1].is_dropped());
  CHECK(!strangers[2].is_dropped());
  CHECK(!strangers.back().is_dropped());
}

TEST_CASE("a second link of one kind is rejected, one of the other kind is accepted") {
  Reactor reactor;
  Host host(reactor, member(0));
  Caller first(reactor, member(1));
  first.dial(0, {host.address}, 3s, LinkKind::data);
  REQUIRE(run_until(reactor, [&] { return first.is_over(); }));
  REQUIRE(first.connection);
  Caller second(reactor, member(1));
  second.dial(0, {host.address}, 150ms, LinkKind::data);
  CHECK(run_until(reactor, [&] { return second.is_over(); }));
  CHECK(!second.connection);
  Caller other_kind(reactor, member(1));
  other_kind.dial(0, {host.address}, 3s, LinkKind::control);
  CHECK(run_until(reactor, [&] { return other_kind.is_over(); }));
  CHECK(other_kind.connection);
  Caller other_rank(reactor, member(2));
  other_rank.dial(0, {host.address}, 3s, LinkKind::data);
  CHECK(run_until(reactor, [&] { return other_rank.is_over(); }));
  CHECK(other_rank.connection);
  CHECK(host.connections.size() == 3);
}

TEST_CASE("an unexpected link from a member is rejected") {
  Reactor reactor;
  Host host(reactor, member(0));
  host.unexpected = {1, LinkKind::control};
  Caller unexpected(reactor, member(1));
  unexpected.dial(0, {host.address}, 150ms, LinkKind::control);
  CHECK(run_until(reactor, [&] { return unexpected.is_over(); }));
  CHECK(!unexpected.connection);
  Caller expected(reactor, member(1));
  expected.dial(0, {host.address}, 3s, LinkKind::data);
  CHECK(run_until(reactor, [&] { return expected.is_over(); }));
  CHECK(expected.connection);
}

TEST_CASE("log lines about dropped connections are rate-limited") {
  Reactor reactor;
  Host host(reactor, member(0));
  for (int i = 0; i < 50; ++i) {
    Visitor visitor(host.address);
    visitor.say(std::vector<std::byte>(proof_bytes));
    REQUIRE(run_until(
        reactor, [&] { return visitor.is_dropped(); }, 1s));
  }
  REQUIRE(!host.log_lines.empty());
  CHECK(host.log_lines.size() <= 2);
  CHECK(host.log_lines[0] == "dropped a connection: it did not send a tutti handshake");
}

TEST_CASE("destroying an acceptor leaves nothing in the reactor") {
  Reactor reactor;
  {
    Host host(reactor, member(0));
    Visitor visitor(host.address);
    reactor.run_once(10ms);
    host.acceptor.reset();
    CHECK(visitor.is_dropped());
  }
  CHECK(reactor.run_once(10ms));
}

}  // namespace tutti::rendezvous::test
