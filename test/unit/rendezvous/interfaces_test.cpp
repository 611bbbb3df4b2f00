// Selection of interfaces and addresses of two hosts.
#include "rendezvous/interfaces.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "addresses.hpp"
#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::rendezvous::test {

namespace {

using Texts = std::vector<std::string>;

const std::vector<Interface> a_host{{"lo", v4("127.0.0.1"), 8},   {"docker0", v4("172.17.0.1"), 16},
                                    {"eth0", v4("10.1.0.1"), 24}, {"ib0", v4("10.2.0.1"), 24},
                                    {"lo", v6("::1"), 128},       {"eth0", v6("fd00::1"), 64},
                                    {"eth0", v6("fe80::1"), 64}};

/// "eth0 10.1.0.1"
Texts chosen(const std::string& filter, SocketFamily family = SocketFamily::any) {
  Texts result;
  const auto source = "TUTTI_SOCKET_IFNAME=" + filter;
  for (const auto& interface :
       choose_interfaces(a_host, InterfaceFilter(filter, source), source, family)) {
    result.push_back(interface.name + " " + interface.address.host_text());
  }
  return result;
}

std::string sentence_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.sentence();
  }
  return "no error";
}

}  // namespace

TEST_CASE("GLOO_SOCKET_IFNAME lists whole names, the other variables prefixes") {
  for (const auto& [variable, whole] :
       {std::pair("GLOO_SOCKET_IFNAME", true), std::pair("NCCL_SOCKET_IFNAME", false)}) {
    INFO(variable);
    const auto filter = InterfaceFilter::from(Environment::from({{variable, "eth1,ib0"}}));
    CHECK(filter.allows("eth1"));
    CHECK(filter.allows("ib0"));
    CHECK(filter.allows("eth10") == !whole);
    CHECK_FALSE(filter.allows("eth2"));
  }
}

TEST_CASE("interfaces are chosen in the syntax of NCCL_SOCKET_IFNAME") {
  struct Row {
    std::string_view filter;
    std::vector<std::string_view> allowed;
    std::vector<std::string_view> refused;
    bool is_allow_list;
  };
  const std::vector<Row> table{
      {"", {"eth0", "lo", "docker0"}, {}, false},
      {"   ", {"eth0", "lo"}, {}, false},
      {"eth", {"eth0", "eth1", "eth"}, {"ens3", "veth9", "lo", "et"}, true},
      {"eth0", {"eth0", "eth01", "eth0.100"}, {"eth1"}, true},
      {"eth,ib", {"eth0", "ib0"}, {"lo", "docker0"}, true},
      {"=eth0", {"eth0"}, {"eth01", "eth0.100", "eth"}, true},
      {"=eth0,eth1", {"eth0", "eth1"}, {"eth10", "eth2"}, true},
      {"^docker0", {"eth0", "lo"}, {"docker0", "docker01"}, false},
      {"^lo,docker", {"eth0", "ib0"}, {"lo", "docker0", "docker_gwbridge"}, false},
      {"^=eth0", {"eth1", "eth01"}, {"eth0"}, false},
      {" eth0 , ib0 ", {"eth0", "ib0"}, {"lo"}, true},
      {"\t^ docker0 ,\tlo ", {"eth0"}, {"docker0", "lo"}, false},
      {"= eth0 ,eth1", {"eth0", "eth1"}, {"eth01"}, true},
      {",,eth0,,", {"eth0"}, {"lo"}, true},
      {"^", {"eth0", "lo"}, {}, false},
      {"=", {"eth0", "lo"}, {}, false},
      {",", {"eth0", "lo"}, {}, false},
  };
  for (const auto& row : table) {
    const InterfaceFilter filter(row.filter);
    INFO("\"" << row.filter << "\"");
    for (const auto name : row.allowed) {
      INFO(name);
      CHECK(filter.allows(name));
    }
    for (const auto name : row.refused) {
      INFO(name);
      CHECK(!filter.allows(name));
    }
    CHECK(filter.is_allow_list() == row.is_allow_list);
  }
  CHECK(InterfaceFilter().allows("eth0"));
}

TEST_CASE("bridges of containers come last") {
  CHECK(chosen("") == Texts{"eth0 10.1.0.1", "ib0 10.2.0.1", "eth0 fd00::1", "docker0 172.17.0.1"});
  CHECK(chosen("^docker0") == Texts{"eth0 10.1.0.1", "ib0 10.2.0.1", "eth0 fd00::1"});
  CHECK(chosen("docker,eth") == Texts{"eth0 10.1.0.1", "eth0 fd00::1", "docker0 172.17.0.1"});
  CHECK(chosen("lo") == Texts{"lo 127.0.0.1", "lo ::1"});
}

TEST_CASE("a network in the filter matches the addresses in it") {
  CHECK(chosen("10.2.0.0/16") == Texts{"ib0 10.2.0.1"});
  CHECK(chosen("10.0.0.0/8") == Texts{"eth0 10.1.0.1", "ib0 10.2.0.1"});
  CHECK(chosen("fd00::/8") == Texts{"eth0 fd00::1"});
  CHECK(chosen("=ib0,fd00::/8") == Texts{"ib0 10.2.0.1", "eth0 fd00::1"});
  CHECK(chosen("^10.0.0.0/8") == Texts{"eth0 fd00::1", "docker0 172.17.0.1"});
  CHECK(chosen("^docker, 10.1.0.1/32 ") == Texts{"ib0 10.2.0.1", "eth0 fd00::1"});
  CHECK(chosen("127.0.0.0/8") == Texts{"lo 127.0.0.1"});
  CHECK(chosen("0.0.0.0/0") ==
        Texts{"lo 127.0.0.1", "eth0 10.1.0.1", "ib0 10.2.0.1", "docker0 172.17.0.1"});
  for (const std::string bad : {"10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "/8", "eth0/8",
                                "fd00::/129", "10.0.0.0/-1", "10.0.0.0/8x"}) {
    const auto sentence = sentence_of([&] { (void)chosen(bad); }, ErrorCode::usage);
    INFO(sentence);
    CHECK(sentence.starts_with("TUTTI_SOCKET_IFNAME=" + bad + " is unusable: " + bad +
                               " is not a network"));
  }
}

TEST_CASE("one address family can be selected") {
  CHECK(chosen("", SocketFamily::v6) == Texts{"eth0 fd00::1"});
  CHECK(chosen("^docker", SocketFamily::v4) == Texts{"eth0 10.1.0.1", "ib0 10.2.0.1"});
  const auto sentence =
      sentence_of([] { (void)chosen("=ib0", SocketFamily::v6); }, ErrorCode::usage);
  INFO(sentence);
  CHECK(
      sentence.starts_with("TUTTI_SOCKET_FAMILY=6 with TUTTI_SOCKET_IFNAME==ib0 leaves no usable "
                           "address; this host has "));
  CHECK(sentence.find("eth0 (10.1.0.1, fd00::1, fe80::1)") != std::string::npos);
}

TEST_CASE("a filter that leaves no interface is an error that lists the interfaces") {
  const auto sentence = sentence_of([] { (void)chosen("=nosuch0"); }, ErrorCode::usage);
  CHECK(sentence ==
        "TUTTI_SOCKET_IFNAME==nosuch0 leaves no usable network interface; this host has "
        "lo (127.0.0.1, ::1), docker0 (172.17.0.1), eth0 (10.1.0.1, fd00::1, fe80::1), ib0 "
        "(10.2.0.1)");
}

TEST_CASE("loopback is used only if the filter lists it") {
  const auto all = all_interfaces();
  CHECK(std::any_of(all.begin(), all.end(),
                    [](const auto& interface) { return interface.address.is_loopback(); }));
  for (const auto& interface : usable_interfaces(Environment())) {
    CHECK(!interface.address.is_loopback());
  }
  Environment named;
  named.socket_ifname = "=lo";
  named.socket_ifname_source = "NCCL_SOCKET_IFNAME";
  const auto loopback = usable_interfaces(named);
  REQUIRE(!loopback.empty());
  CHECK(loopback[0].name == "lo");
  CHECK(loopback[0].prefix_bits == (loopback[0].address.family() == AF_INET ? 8 : 128));
}

namespace {

std::string family_error(const std::vector<std::vector<SocketAddress>>& addresses,
                         const Texts& identities) {
  return sentence_of(
      [&] {
        require_common_family(addresses, {"a", "b", "c"}, identities);
      },
      ErrorCode::mismatch);
}

}  // namespace

TEST_CASE("two hosts without a common address family are an error with their addresses") {
  const std::vector<SocketAddress> only_v4{v4("10.0.0.1", 1), v4("127.0.0.1", 1)};
  const std::vector<SocketAddress> only_v6{v6("fd00::2", 1)};
  const std::vector<SocketAddress> both{v4("10.0.0.3", 1), v6("fd00::3", 1)};
  const std::vector<SocketAddress> none{v4("127.0.0.1", 1)};
  const Texts apart{"a", "b", "c"};
  CHECK(family_error({only_v4, both, both}, apart) == "no error");
  CHECK(family_error({both, only_v6, both}, apart) == "no error");
  CHECK(family_error({none, none, none}, {"a", "a", "a"}) == "no error");
  CHECK(family_error({none, none, none}, {"a", "a", "b"})
            .starts_with("rank 0 (a) has no address but loopback, rank 2 (c) has no address but "
                         "loopback, on another host"));
  CHECK(family_error({none, none}, {"TUTTI_HOST_ID=a", "TUTTI_HOST_ID=b"}) == "no error");
  CHECK(family_error({only_v4, only_v6}, {"a", "a"}) == "no error");
  CHECK(family_error({none, both}, {"TUTTI_HOST_ID=a", "TUTTI_HOST_ID=b"}) == "no error");
  CHECK(family_error({both, only_v6, only_v4}, apart)
            .starts_with("rank 1 (b) has fd00::2, rank 2 (c) has 10.0.0.1: the hosts have no "
                         "address family in common"));
  CHECK(
      family_error({both, none, both}, apart)
          .starts_with("rank 0 (a) has 10.0.0.3, fd00::3, rank 1 (b) has no address but loopback"));
}

TEST_CASE("a socket is bound to the interface in the target's network, or to the only one") {
  // No host has addresses of 192.0.2.0/24, 198.51.100.0/24 and 203.0.113.0/24, so binding fails.
  const Interface one{"eth0", v4("192.0.2.1"), 24};
  const Interface two{"eth1", v4("198.51.100.1"), 24};
  const Interface six{"eth0", v6("2001:db8::1"), 64};
  const Interface loopback{"lo", v4("127.0.0.1"), 8};
  const auto bind = [](const std::vector<Interface>& sources, const SocketAddress& target) {
    const Descriptor socket(::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    return bind_source(socket.get(), sources, target);
  };
  CHECK(bind({one, two}, v4("192.0.2.2")) == EADDRNOTAVAIL);
  CHECK(bind({one, six}, v4("203.0.113.1")) == EADDRNOTAVAIL);
  CHECK(bind({one, two}, v4("203.0.113.1")) == 0);  // routed
  CHECK(bind({one, two}, v4("127.0.0.1")) == 0);
  CHECK(bind({six, loopback}, v4("192.0.2.2")) == 0);
  CHECK(bind({}, v4("192.0.2.2")) == 0);
}

}  // namespace tutti::rendezvous::test
