// Addresses, and which interfaces may be used.
#include "rendezvous/address.hpp"

#include "addresses.hpp"
#include "support/catch.hpp"
#include "tutti/error.hpp"

namespace tutti::rendezvous::test {

TEST_CASE("addresses read as people write them") {
  CHECK(v4("10.0.0.1", 4711).text() == "10.0.0.1:4711");
  CHECK(v6("fd00::1", 4711).text() == "[fd00::1]:4711");
  CHECK(v6("::1", 1).text() == "[::1]:1");
  CHECK(SocketAddress::loopback_v4().text() == "127.0.0.1:0");
}

TEST_CASE("a port is set and read in both families") {
  for (auto address : {v4("10.0.0.1", 1), v6("fd00::1", 1)}) {
    address.set_port(0xABCD);
    CHECK(address.port() == 0xABCD);
  }
}

TEST_CASE("loopback is all of 127/8 and ::1") {
  CHECK(SocketAddress::loopback_v4().is_loopback());
  CHECK(v4("127.255.0.9").is_loopback());
  CHECK(v6("::1").is_loopback());
  CHECK(!v4("128.0.0.1").is_loopback());
  CHECK(!v4("10.127.0.1").is_loopback());
  CHECK(!v6("::2").is_loopback());
}

TEST_CASE("an address survives the way") {
  for (const auto& address :
       {v4("10.1.2.3", 65535), v6("fd00:1:2:3:4:5:6:7", 258), v4("0.0.0.0", 0)}) {
    ByteWriter writer;
    address.encode(writer);
    ByteReader reader(writer.bytes());
    const auto arrived = SocketAddress::decode(reader);
    REQUIRE(arrived);
    CHECK(arrived->text() == address.text());
    CHECK(arrived->family() == address.family());
    CHECK(reader.at_end());
  }
}

TEST_CASE("an address cut short or of no known family is none") {
  for (const auto& address : {v4("10.1.2.3", 5), v6("fd00::1", 5)}) {
    ByteWriter writer;
    address.encode(writer);
    for (std::size_t length = 0; length < writer.bytes().size(); ++length) {
      ByteReader reader(std::span(writer.bytes()).first(length));
      REQUIRE(!SocketAddress::decode(reader));
    }
    for (unsigned version = 0; version < 256; ++version) {
      auto bytes = writer.bytes();
      bytes[0] = static_cast<std::byte>(version);
      bytes.resize(19);
      ByteReader reader(bytes);
      REQUIRE(SocketAddress::decode(reader).has_value() == (version == 4 || version == 6));
    }
  }
}

TEST_CASE("two addresses share a network if its prefix is the same, bit by bit") {
  struct Row {
    SocketAddress one;
    SocketAddress other;
    int common_bits;
  };
  const std::vector<Row> table{
      {v4("10.0.0.1"), v4("10.0.0.1"), 32},     {v4("10.0.0.1"), v4("10.0.0.2"), 30},
      {v4("10.0.0.1"), v4("10.0.1.1"), 23},     {v4("10.0.0.1"), v4("10.128.0.1"), 8},
      {v4("10.0.0.1"), v4("138.0.0.1"), 0},     {v4("172.16.0.1"), v4("172.31.255.1"), 12},
      {v6("fd00::1"), v6("fd00::1"), 128},      {v6("fd00::1"), v6("fd00::8000:0"), 96},
      {v6("fd00:0:0:1::1"), v6("fd00::1"), 63}, {v6("fd00::1"), v6("fc00::1"), 7},
      {v6("fd00::1"), v6("7d00::1"), 0},
  };
  for (const auto& row : table) {
    const int most = row.one.family() == AF_INET ? 32 : 128;
    for (int bits = 0; bits <= most; ++bits) {
      INFO(row.one.text() << " and " << row.other.text() << ", /" << bits);
      REQUIRE(row.one.shares_prefix(row.other, bits) == (bits <= row.common_bits));
      REQUIRE(row.other.shares_prefix(row.one, bits) == (bits <= row.common_bits));
    }
  }
}

TEST_CASE("the two families share no network") {
  CHECK(!v4("10.0.0.1").shares_prefix(v6("fd00::1"), 0));
  CHECK(!v6("::ffff:10.0.0.1").shares_prefix(v4("10.0.0.1"), 0));
}

TEST_CASE("interfaces are chosen in the syntax of NCCL_SOCKET_IFNAME") {
  struct Row {
    std::string_view filter;
    std::vector<std::string_view> allowed;
    std::vector<std::string_view> refused;
    bool names_some;
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
    CHECK(filter.names_some() == row.names_some);
  }
  CHECK(InterfaceFilter().allows("eth0"));
}

TEST_CASE("loopback is used only where it is asked for") {
  for (const auto& interface : usable_interfaces(InterfaceFilter("^nothing"), "")) {
    CHECK(!interface.address.is_loopback());
  }
  const auto loopback = usable_interfaces(InterfaceFilter("=lo"), "TUTTI_SOCKET_IFNAME==lo");
  REQUIRE(!loopback.empty());
  CHECK(loopback[0].address.is_loopback());
  CHECK(loopback[0].name == "lo");
  CHECK(loopback[0].prefix_bits == (loopback[0].address.family() == AF_INET ? 8 : 128));
}

TEST_CASE("a filter that leaves nothing is an error that lists what there is") {
  try {
    (void)usable_interfaces(InterfaceFilter("=nosuch0"), "NCCL_SOCKET_IFNAME==nosuch0");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    INFO(error.what());
    CHECK(error.sentence().find("NCCL_SOCKET_IFNAME==nosuch0") != std::string::npos);
    CHECK(error.sentence().find("lo") != std::string::npos);
  }
}

}  // namespace tutti::rendezvous::test
