// Addresses.
#include "rendezvous/address.hpp"

#include "addresses.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {

TEST_CASE("addresses are formatted in the usual notation") {
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

TEST_CASE("an address survives encoding and decoding") {
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

TEST_CASE("a truncated address or one of an unknown family is rejected") {
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

TEST_CASE("two addresses share a network if the bits of its prefix are equal") {
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

TEST_CASE("an address is parsed from text without a port") {
  CHECK(SocketAddress::parse("10.0.0.1")->text() == "10.0.0.1:0");
  CHECK(SocketAddress::parse("fd00::1")->text() == "[fd00::1]:0");
  for (const std::string text : {"", "10.0.0", "10.0.0.1:5", "[fd00::1]", "node1", "10.0.0.256"}) {
    CHECK(!SocketAddress::parse(text));
  }
}

TEST_CASE("is_same_host() ignores ports") {
  CHECK(v4("10.0.0.1", 1).is_same_host(v4("10.0.0.1", 2)));
  CHECK(!v4("10.0.0.1", 1).is_same_host(v4("10.0.0.2", 1)));
  CHECK(v6("fd00::1", 1).is_same_host(v6("fd00::1", 2)));
  CHECK(!v6("::ffff:10.0.0.1").is_same_host(v4("10.0.0.1")));
}

}  // namespace tutti::rendezvous::test
