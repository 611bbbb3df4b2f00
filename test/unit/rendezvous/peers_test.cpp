// Peers: places, shared cores, candidate addresses.
#include "rendezvous/peers.hpp"

#include "addresses.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"
#include "tutti/version.hpp"

namespace tutti::rendezvous::test {

namespace {

PeerInfo info_on(const std::string& host, std::vector<SocketAddress> addresses = {}) {
  PeerInfo info;
  info.version = version_string;
  info.host = {"identity of " + host, host, "pids of " + host};
  info.pid = 100;
  info.addresses = std::move(addresses);
  return info;
}

std::vector<std::string> texts(const std::vector<SocketAddress>& addresses) {
  std::vector<std::string> result;
  for (const auto& address : addresses) result.push_back(address.text());
  return result;
}

using Texts = std::vector<std::string>;

const auto loopback = v4("127.0.0.1", 1);
const auto slow = v4("192.168.0.2", 2);
const auto fast = v4("10.0.0.2", 3);
const auto fast_v6 = v6("fd00::2", 4);

}  // namespace

TEST_CASE("places are computed from the peer info") {
  const Peers peers(2, {info_on("a"), info_on("b"), info_on("a"), info_on("b")}, {});
  CHECK(peers.rank() == 2);
  CHECK(peers.size() == 4);
  CHECK(peers.place().local_rank == 1);
  CHECK(peers.place_of(3).local_rank == 1);
  CHECK(peers.place_of(3).host_index == 1);
  CHECK(peers.on_this_host(0));
  CHECK(!peers.on_this_host(1));
  CHECK(peers.describe(3) == "rank 3 (b, pid 100)");
}

TEST_CASE("survivors are renumbered and keep their original ranks") {
  const Peers all(3, {info_on("a"), info_on("b"), info_on("a"), info_on("b"), info_on("a")}, {});
  const auto rest = all.without({0, 4});
  CHECK(rest.rank() == 2);
  CHECK(rest.size() == 3);
  CHECK(rest.place_of(1).host_index == 1);
  CHECK(rest.place().local_rank == 1);
  CHECK(rest.original_rank(2) == 3);
  CHECK(rest.describe(1) == "rank 1 (a, pid 100, once rank 2)");
  const auto last = rest.without({0, 1});
  CHECK(last.size() == 1);
  CHECK(last.original_rank(0) == 3);
  CHECK(last.rank_of_original(3) == 0);
  CHECK(last.rank_of_original(2) == -1);
}

TEST_CASE("peer info with different settings is an error") {
  auto other = info_on("b");
  other.version = "99.0.0";
  CHECK_THROWS_AS(Peers(0, {info_on("a"), other}, {}), Error);
}

TEST_CASE("a pid is valid only within a pid namespace") {
  auto blind = info_on("a");
  blind.host.pid_namespace.clear();
  auto contained = info_on("a");
  contained.host.pid_namespace = "a container's";
  const Peers peers(0, {info_on("a"), info_on("a"), contained, blind, info_on("b")}, {});
  CHECK(peers.sees_pid_of(1));
  CHECK(!peers.sees_pid_of(2));
  CHECK(!peers.sees_pid_of(3));
  CHECK(!peers.sees_pid_of(4));
  const Peers unsighted(0, {blind, blind}, {});
  CHECK(!unsighted.sees_pid_of(1));
}

TEST_CASE("ranks share cores if they outnumber them") {
  const auto on = [](const std::string& host, std::uint32_t first, std::uint32_t cores) {
    auto info = info_on(host);
    info.first_core = first;
    info.cores = cores;
    return info;
  };
  const auto shared = [](int rank, std::vector<PeerInfo> infos) {
    return Peers(rank, std::move(infos), {}).shares_cores();
  };
  // Each bound to its own core, as mpirun does with two ranks.
  CHECK(!shared(0, {on("a", 0, 1), on("a", 1, 1)}));
  CHECK(!shared(1, {on("a", 0, 1), on("a", 1, 1)}));
  CHECK(shared(1, {on("a", 0, 1), on("a", 0, 1)}));
  CHECK(!shared(0, {on("a", 0, 2), on("a", 0, 2)}));
  CHECK(shared(0, {on("a", 0, 2), on("a", 0, 2), on("a", 0, 2)}));
  // Two sockets of two cores; the second has three ranks.
  CHECK(!shared(0, {on("a", 0, 2), on("a", 2, 2), on("a", 2, 2), on("a", 2, 2)}));
  CHECK(shared(1, {on("a", 0, 2), on("a", 2, 2), on("a", 2, 2), on("a", 2, 2)}));
  // Ranks on another host share nothing.
  CHECK(!shared(0, {on("a", 0, 1), on("b", 0, 1)}));
}

TEST_CASE("ranks share cores if a control group's quota is below one core each") {
  const auto under = [](const std::string& host, std::vector<CpuQuota> quotas) {
    auto info = info_on(host);
    info.cores = 8;
    info.cpu_quotas = std::move(quotas);
    return info;
  };
  const auto shared = [](int rank, std::vector<PeerInfo> infos) {
    return Peers(rank, std::move(infos), {}).shares_cores();
  };
  const auto group = [](std::uint32_t millicores, const std::string& identity) {
    return CpuQuota{millicores, "/" + identity, identity, ""};
  };
  CHECK(!shared(0, {under("a", {}), under("a", {})}));
  CHECK(!shared(0, {under("a", {group(2000, "x")}), under("a", {group(2000, "x")})}));
  CHECK(shared(0, {under("a", {group(1999, "x")}), under("a", {group(1999, "x")})}));
  // Each in its own container with one core; then with less than one.
  CHECK(!shared(0, {under("a", {group(1000, "x")}), under("a", {group(1000, "y")})}));
  CHECK(shared(0, {under("a", {group(500, "x")}), under("a", {group(500, "y")})}));
  // The common parent group allows less than both together.
  const auto pod = group(1500, "pod");
  CHECK(shared(0, {under("a", {group(1000, "x"), pod}), under("a", {group(1000, "y"), pod})}));
  CHECK(!shared(0, {under("a", {group(1000, "x"), pod}), under("a", {})}));
  // On another host the group is a different one.
  CHECK(!shared(0, {under("a", {group(1000, "x")}), under("b", {group(1000, "x")})}));
}

TEST_CASE("candidates are loopback inside a host and all other addresses between hosts") {
  const Peers peers(
      0, {info_on("a"), info_on("a", {slow, loopback}), info_on("b", {slow, loopback})}, {});
  CHECK(texts(peers.candidates(1)) == Texts{"127.0.0.1:1"});
  CHECK(texts(peers.candidates(2)) == Texts{"192.168.0.2:2"});
}

TEST_CASE("addresses in common networks come first, else the peer's order is kept") {
  const std::vector<PeerInfo> infos{info_on("a"), info_on("b", {slow, fast, fast_v6, loopback})};
  CHECK(texts(Peers(0, infos, {}).candidates(1)) ==
        Texts{"192.168.0.2:2", "10.0.0.2:3", "[fd00::2]:4"});
  const Peers with_fast(0, infos, {{"ib0", v4("10.0.0.1"), 24}});
  CHECK(texts(with_fast.candidates(1)) == Texts{"10.0.0.2:3", "192.168.0.2:2", "[fd00::2]:4"});
  const Peers with_both(0, infos, {{"ib0", v6("fd00::1"), 64}, {"eth0", v4("192.168.0.1"), 24}});
  CHECK(texts(with_both.candidates(1)) == Texts{"192.168.0.2:2", "[fd00::2]:4", "10.0.0.2:3"});
  const Peers with_neither(0, infos, {{"eth0", v4("172.16.0.1"), 16}});
  CHECK(texts(with_neither.candidates(1)) == Texts{"192.168.0.2:2", "10.0.0.2:3", "[fd00::2]:4"});
}

TEST_CASE("addresses of this host and of other families come last") {
  const std::vector<PeerInfo> infos{info_on("a"),
                                    info_on("b", {v4("172.17.0.1", 5), fast_v6, fast, loopback})};
  const Peers with_bridge(0, infos,
                          {{"docker0", v4("172.17.0.1"), 16}, {"eth0", v4("10.9.0.1"), 24}});
  CHECK(texts(with_bridge.candidates(1)) == Texts{"10.0.0.2:3", "[fd00::2]:4", "172.17.0.1:5"});
  const Peers v6_only(0, infos, {{"eth0", v6("fd00::1"), 64}});
  CHECK(texts(v6_only.candidates(1)) == Texts{"[fd00::2]:4", "172.17.0.1:5", "10.0.0.2:3"});
}

TEST_CASE("a rank that could not listen is the same error on all ranks") {
  auto failed = info_on("b", {});
  failed.failure = "TUTTI_PORT_RANGE=1-2 is exhausted";
  try {
    Peers(0, {info_on("a", {slow}), failed}, {}).require_reachable();
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::system);
    CHECK(error.failed_ranks() == std::vector<int>{1});
    CHECK(error.sentence().find("TUTTI_PORT_RANGE=1-2 is exhausted") != std::string::npos);
  }
}

TEST_CASE("without a preferred kind of address the other kind is tried") {
  // "Hosts" defined by TUTTI_HOST_ID connect through loopback.
  const Peers peers(0, {info_on("a"), info_on("b", {loopback}), info_on("a", {slow})}, {});
  CHECK(texts(peers.candidates(1)) == Texts{"127.0.0.1:1"});
  CHECK(texts(peers.candidates(2)) == Texts{"192.168.0.2:2"});
}

TEST_CASE("a peer without listeners has no candidates") {
  const Peers peers(0, {info_on("a"), info_on("b")}, {});
  CHECK(peers.candidates(1).empty());
}

namespace {

/// Listeners without sockets.
Texts kept(const std::vector<SocketAddress>& addresses, bool peers_on_this_host,
           bool peers_elsewhere) {
  std::vector<Listener> listeners;
  for (const auto& address : addresses) listeners.push_back({Descriptor(), address});
  close_unneeded_listeners(listeners, peers_on_this_host, peers_elsewhere);
  Texts result;
  for (const auto& listener : listeners) result.push_back(listener.address.text());
  return result;
}

}  // namespace

TEST_CASE("listeners that no peer needs are closed") {
  CHECK(kept({slow, loopback}, true, true) == Texts{"192.168.0.2:2", "127.0.0.1:1"});
  CHECK(kept({slow, loopback}, true, false) == Texts{"127.0.0.1:1"});
  CHECK(kept({slow, loopback}, false, true) == Texts{"192.168.0.2:2"});
  CHECK(kept({slow, loopback}, false, false).empty());
}

TEST_CASE("the only listeners are kept if there are peers") {
  CHECK(kept({loopback}, false, true) == Texts{"127.0.0.1:1"});
  CHECK(kept({slow}, true, false) == Texts{"192.168.0.2:2"});
  CHECK(kept({slow}, true, true) == Texts{"192.168.0.2:2"});
}

TEST_CASE("a listener reports the port that the kernel chose") {
  const auto listeners = open_listeners({});
  REQUIRE(listeners.size() == 1);
  CHECK(listeners[0].address.is_loopback());
  CHECK(listeners[0].address.port() != 0);
}

TEST_CASE("an address that this host does not have is skipped") {
  const auto listeners = open_listeners({{"x", v4("203.0.113.1"), 24}});
  REQUIRE(listeners.size() == 1);
  CHECK(listeners[0].address.is_loopback());
}

}  // namespace tutti::rendezvous::test
