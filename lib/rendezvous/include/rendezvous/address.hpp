#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace tutti::rendezvous {

/// An IPv4 or IPv6 address with a port.
class SocketAddress {
 public:
  SocketAddress() = default;
  explicit SocketAddress(const sockaddr* address);
  static SocketAddress loopback_v4();
  static SocketAddress loopback_v6();
  /// Parses "10.0.0.1" or "fd00::1", without a port. Empty if `text` is not a valid address.
  static std::optional<SocketAddress> parse(const std::string& text);

  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const;
  void set_port(std::uint16_t port);
  [[nodiscard]] bool is_loopback() const;
  /// 169.254.0.0/16 or fe80::/10: valid on a single link only.
  [[nodiscard]] bool is_link_local() const;
  /// True if the addresses are equal; ports are ignored.
  [[nodiscard]] bool is_same_host(const SocketAddress& other) const;
  /// True if `other` is in the network given by the first `prefix_bits` bits of this address.
  [[nodiscard]] bool shares_prefix(const SocketAddress& other, int prefix_bits) const;
  /// "10.0.0.1:4711", "[fd00::1]:4711"
  [[nodiscard]] std::string text() const;
  /// "10.0.0.1", "fd00::1"
  [[nodiscard]] std::string host_text() const;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t length() const;

  void encode(ByteWriter& writer) const;
  static std::optional<SocketAddress> decode(ByteReader& reader);

 private:
  [[nodiscard]] std::span<const std::byte> address_bytes() const;
  sockaddr_storage storage_{};
};

}  // namespace tutti::rendezvous
