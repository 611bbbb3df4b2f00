#include "rendezvous/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <set>

#include "base/system_error.hpp"

namespace tutti::rendezvous {
namespace {

const sockaddr_in& as_v4(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& as_v6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

bool is_link_local(const SocketAddress& address) {
  if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address.get());
    return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.get());
  return (ntohl(v4->sin_addr.s_addr) >> 16) == 0xA9FE;  // 169.254.0.0/16
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

std::string SocketAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  if (family() == AF_INET6) {
    ::inet_ntop(AF_INET6, &as_v6(storage_).sin6_addr, buffer.data(), buffer.size());
    return fmt::format("[{}]:{}", buffer.data(), port());
  }
  ::inet_ntop(AF_INET, &as_v4(storage_).sin_addr, buffer.data(), buffer.size());
  return fmt::format("{}:{}", buffer.data(), port());
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

InterfaceFilter::InterfaceFilter(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  if (!text.empty() && text.front() == '^') {
    exclude_ = true;
    text.remove_prefix(1);
  }
  if (!text.empty() && text.front() == '=') {
    whole_names_ = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    auto name = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    while (!name.empty() && is_blank(name.front())) name.remove_prefix(1);
    while (!name.empty() && is_blank(name.back())) name.remove_suffix(1);
    if (!name.empty()) names_.emplace_back(name);
  }
}

bool InterfaceFilter::allows(std::string_view name) const {
  if (names_.empty()) return true;
  const bool listed = std::any_of(names_.begin(), names_.end(), [&](const std::string& wanted) {
    return whole_names_ ? name == wanted : name.substr(0, wanted.size()) == wanted;
  });
  return listed != exclude_;
}

std::vector<Interface> usable_interfaces(const InterfaceFilter& filter, const std::string& source) {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) throw system_error("can't list the network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, ::freeifaddrs);

  std::vector<Interface> result;
  std::set<std::string> names;
  for (const auto* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const auto family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    names.insert(entry->ifa_name);
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_RUNNING) == 0) continue;
    Interface found{.name = entry->ifa_name, .address = SocketAddress(entry->ifa_addr)};
    if (found.address.is_loopback() && !filter.names_some()) continue;
    if (is_link_local(found.address) || !filter.allows(found.name)) continue;
    if (entry->ifa_netmask != nullptr) {
      const auto* mask = reinterpret_cast<const unsigned char*>(
          family == AF_INET
              ? static_cast<const void*>(
                    &reinterpret_cast<const sockaddr_in*>(entry->ifa_netmask)->sin_addr)
              : static_cast<const void*>(
                    &reinterpret_cast<const sockaddr_in6*>(entry->ifa_netmask)->sin6_addr));
      const std::size_t bytes = family == AF_INET ? 4 : 16;
      for (std::size_t i = 0; i < bytes; ++i) found.prefix_bits += std::popcount(mask[i]);
    }
    result.push_back(std::move(found));
  }
  if (result.empty() && !source.empty() && filter.names_some()) {
    throw Error(ErrorCode::usage,
                fmt::format("{} leaves no usable network interface; this host has {}", source,
                            fmt::join(names, ", ")));
  }
  return result;
}

}  // namespace tutti::rendezvous
