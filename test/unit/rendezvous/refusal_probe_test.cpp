// Probe for ranks that ended before they had a link.
#include "rendezvous/refusal_probe.hpp"

#include "peer_exchange.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

TEST_CASE("a rank whose ports all refuse is reported") {
  Reactor reactor;
  std::vector<SocketAddress> closed;
  for (int i = 0; i < 2; ++i) closed.push_back(open_listeners({})[0].address);
  bool refused = false;
  const RefusalProbe probe(
      reactor, closed, [&] { refused = true; }, 20ms);
  CHECK(run_until(
      reactor, [&] { return refused; }, 30s));
}

TEST_CASE("one listening port is enough, whether it accepts or not") {
  Reactor reactor;
  const auto open = open_listeners({});
  const auto closed = open_listeners({})[0].address;
  bool refused = false;
  const RefusalProbe probe(
      reactor, {closed, open[0].address}, [&] { refused = true; }, 20ms);
  // Longer than the detection takes if all refuse.
  CHECK_FALSE(run_until(
      reactor, [&] { return refused; }, 400ms));
}

TEST_CASE("a rank without a common address is not reported") {
  Reactor reactor;
  bool refused = false;
  const RefusalProbe probe(
      reactor, {}, [&] { refused = true; }, 20ms);
  CHECK_FALSE(run_until(
      reactor, [&] { return refused; }, 400ms));
}

TEST_CASE("the callback may destroy the probe") {
  Reactor reactor;
  std::optional<RefusalProbe> probe;
  probe.emplace(
      reactor, std::vector{open_listeners({})[0].address}, [&] { probe.reset(); }, 20ms);
  CHECK(run_until(
      reactor, [&] { return !probe; }, 30s));
}

}  // namespace tutti::rendezvous::test
