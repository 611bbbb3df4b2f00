#include "rendezvous/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

namespace tutti::rendezvous {
namespace {

const sockaddr_in& as_v4(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& as_v6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    std::memcpy(&storage_, address, sizeof(sockaddr_in));
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(&storage_, address, sizeof(sockaddr_in6));
  }
}

SocketAddress SocketAddress::loopback_v4() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address));
}

SocketAddress SocketAddress::loopback_v6() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address));
}

std::optional<SocketAddress> SocketAddress::parse(const std::string& text) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    // Not via sockaddr: g++ 13 warns about an out-of-bounds copy of the other family.
    SocketAddress result;
    std::memcpy(&result.storage_, &v4, sizeof v4);
    return result;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    return SocketAddress(reinterpret_cast<const sockaddr*>(&v6));
  }
  return std::nullopt;
}

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? as_v6(storage_).sin6_port : as_v4(storage_).sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
  }
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&as_v6(storage_).sin6_addr);
  return (ntohl(as_v4(storage_).sin_addr.s_addr) >> 24) == 127;
}

bool SocketAddress::is_link_local() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LINKLOCAL(&as_v6(storage_).sin6_addr);
  return (ntohl(as_v4(storage_).sin_addr.s_addr) >> 16) == 0xA9FE;
}

bool SocketAddress::is_same_host(const SocketAddress& other) const {
  return shares_prefix(other, family() == AF_INET6 ? 128 : 32);
}

std::span<const std::byte> SocketAddress::address_bytes() const {
  if (family() == AF_INET6) return std::as_bytes(std::span(&as_v6(storage_).sin6_addr, 1));
  return std::as_bytes(std::span(&as_v4(storage_).sin_addr, 1));
}

bool SocketAddress::shares_prefix(const SocketAddress& other, int prefix_bits) const {
  if (family() != other.family()) return false;
  const auto mine = address_bytes();
  const auto theirs = other.address_bytes();
  for (std::size_t i = 0; i < mine.size() && prefix_bits > 0; ++i, prefix_bits -= 8) {
    const auto mask =
        prefix_bits >= 8 ? std::byte{0xFF} : static_cast<std::byte>(0xFF00U >> prefix_bits);
    if (((mine[i] ^ theirs[i]) & mask) != std::byte{0}) return false;
  }
  return true;
}

socklen_t SocketAddress::length() const {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::string SocketAddress::host_text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  ::inet_ntop(family() == AF_INET6 ? AF_INET6 : AF_INET, address_bytes().data(), buffer.data(),
              buffer.size());
  return buffer.data();
}

std::string SocketAddress::text() const {
  const bool is_v6 = family() == AF_INET6;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", host_text(), is_v6 ? "]" : "", port());
}

void SocketAddress::encode(ByteWriter& writer) const {
  writer.put(static_cast<std::uint8_t>(family() == AF_INET6 ? 6 : 4)).put(port());
  writer.put(address_bytes());
}

std::optional<SocketAddress> SocketAddress::decode(ByteReader& reader) {
  const auto version = reader.get<std::uint8_t>();
  const auto port = reader.get<std::uint16_t>();
  SocketAddress result;
  if (version == 4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    reader.get(std::as_writable_bytes(std::span<in_addr, 1>(&address.sin_addr, 1)));
    result = SocketAddress(reinterpret_cast<const sockaddr*>(&address));
  } else if (version == 6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    reader.get(std::as_writable_bytes(std::span<in6_addr, 1>(&address.sin6_addr, 1)));
    result = SocketAddress(reinterpret_cast<const sockaddr*>(&address));
  } else {
    return std::nullopt;
  }
  if (!reader.ok()) return std::nullopt;
  result.set_port(port);
  return result;
}

}  // namespace tutti::rendezvous
