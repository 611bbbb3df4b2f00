// Probe for ranks that ended before they had a link.
#include "rendezvous/refusal_probe.hpp"

#include <net/if.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "addresses.hpp"
#include "peer_exchange.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

namespace {

constexpr int without_namespace = 2;
constexpr auto rank_address = "192.0.2.1";
constexpr auto source_address = "192.0.2.7";

/// Moves this process into a network namespace whose loopback interface has both addresses. False
/// without the permission.
bool enter_own_network() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const Descriptor control(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto set = [&](const char* name, const char* text) {
    ifreq request{};
    std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    const auto address = v4(text);
    std::memcpy(&request.ifr_addr, address.get(), address.length());
    return ::ioctl(control.get(), SIOCSIFADDR, &request) == 0;
  };
  ifreq up{};
  std::strncpy(up.ifr_name, "lo", IFNAMSIZ - 1);
  up.ifr_flags = IFF_UP;
  return ::ioctl(control.get(), SIOCSIFFLAGS, &up) == 0 && set("lo:1", rank_address) &&
         set("lo:2", source_address);
}

/// Checks that `holds` in a child process with a network of its own.
template <class Holds>
void in_own_network(Holds holds) {
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!enter_own_network()) ::_exit(without_namespace);
    ::_exit(holds() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == without_namespace) {
    WARN("skipped: this process may not make a network namespace");
    return;
  }
  CHECK(status == 0);
}

/// Probes a listening rank from `source_address`; returns where the probe came from.
std::string source_of_probe() {
  const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto address = v4(rank_address);
  ::bind(listener.get(), address.get(), address.length());
  ::listen(listener.get(), 8);
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length);
  address = SocketAddress(reinterpret_cast<const sockaddr*>(&storage));

  Reactor reactor;
  std::string source;
  reactor.add(listener.get(), EPOLLIN, [&](std::uint32_t) {
    length = sizeof storage;
    const Descriptor accepted(
        ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length, SOCK_CLOEXEC));
    source = SocketAddress(reinterpret_cast<const sockaddr*>(&storage)).host_text();
  });
  const Interface own{.name = "lo", .address = v4(source_address), .prefix_bits = 24};
  const RefusalProbe probe(
      reactor, {address}, {own}, [] {}, 20ms);
  static_cast<void>(run_until(
      reactor, [&] { return !source.empty(); }, 10s));
  return source;
}

}  // namespace

TEST_CASE("a rank whose ports all refuse is reported") {
  Reactor reactor;
  std::vector<SocketAddress> closed;
  for (int i = 0; i < 2; ++i) closed.push_back(open_listeners({})[0].address);
  bool refused = false;
  const RefusalProbe probe(
      reactor, closed, {}, [&] { refused = true; }, 20ms);
  CHECK(run_until(
      reactor, [&] { return refused; }, 30s));
}

TEST_CASE("one listening port is enough, whether it accepts or not") {
  Reactor reactor;
  const auto open = open_listeners({});
  const auto closed = open_listeners({})[0].address;
  bool refused = false;
  const RefusalProbe probe(
      reactor, {closed, open[0].address}, {}, [&] { refused = true; }, 20ms);
  // Longer than the detection takes if all refuse.
  CHECK_FALSE(run_until(
      reactor, [&] { return refused; }, 400ms));
}

TEST_CASE("a rank without a common address is not reported") {
  Reactor reactor;
  bool refused = false;
  const RefusalProbe probe(
      reactor, {}, {}, [&] { refused = true; }, 20ms);
  CHECK_FALSE(run_until(
      reactor, [&] { return refused; }, 400ms));
}

TEST_CASE("a probe leaves from the selected interface") {
  in_own_network([] { return source_of_probe() == source_address; });
}

TEST_CASE("an address that this host has no more proves nothing about a rank") {
  in_own_network([] {
    // Prefixes of 0 bits, so that both sources count as in the rank's network.
    const auto is_reported_from = [](const char* source) {
      Reactor reactor;
      bool refused = false;
      const Interface own{.name = "lo", .address = v4(source), .prefix_bits = 0};
      const RefusalProbe probe(
          reactor, {v4(rank_address, 9)}, {own}, [&] { refused = true; }, 20ms);
      return run_until(
          reactor, [&] { return refused; }, 2s);
    };
    return is_reported_from(source_address) && !is_reported_from("198.51.100.9");
  });
}

TEST_CASE("the callback may destroy the probe") {
  Reactor reactor;
  std::optional<RefusalProbe> probe;
  probe.emplace(
      reactor, std::vector{open_listeners({})[0].address}, std::vector<Interface>(),
      [&] { probe.reset(); }, 20ms);
  CHECK(run_until(
      reactor, [&] { return !probe; }, 30s));
}

}  // namespace tutti::rendezvous::test
