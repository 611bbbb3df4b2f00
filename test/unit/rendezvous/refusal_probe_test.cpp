// Whether anybody is left at a rank's ports.
#include "rendezvous/refusal_probe.hpp"

#include "peer_exchange.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

TEST_CASE("ports that all refuse are those of a rank that has ended") {
  Reactor reactor;
  std::vector<SocketAddress> closed;
  for (int i = 0; i < 2; ++i) closed.push_back(listen_everywhere({})[0].address);
  bool refused = false;
  const RefusalProbe probe(
      reactor, closed, [&] { refused = true; }, 20ms);
  CHECK(run_until(
      reactor, [&] { return refused; }, 30s));
}

TEST_CASE("one port at which somebody listens is enough, whether he accepts or not") {
  Reactor reactor;
  const auto open = listen_everywhere({});
  const auto closed = listen_everywhere({})[0].address;
  bool refused = false;
  const RefusalProbe probe(
      reactor, {closed, open[0].address}, [&] { refused = true; }, 20ms);
  // Longer than it takes where all refuse.
  CHECK_FALSE(run_until(
      reactor, [&] { return refused; }, 400ms));
}

TEST_CASE("a rank without an address in common is not called dead") {
  Reactor reactor;
  bool refused = false;
  const RefusalProbe probe(
      reactor, {}, [&] { refused = true; }, 20ms);
  CHECK_FALSE(run_until(
      reactor, [&] { return refused; }, 400ms));
}

TEST_CASE("a probe whose callback ends it") {
  Reactor reactor;
  std::optional<RefusalProbe> probe;
  probe.emplace(
      reactor, std::vector{listen_everywhere({})[0].address}, [&] { probe.reset(); }, 20ms);
  CHECK(run_until(
      reactor, [&] { return !probe; }, 30s));
}

}  // namespace tutti::rendezvous::test
