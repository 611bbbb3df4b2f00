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

  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const;
  void set_port(std::uint16_t port);
  [[nodiscard]] bool is_loopback() const;
  /// True if both lie in the network that `prefix_bits` of this address name.
  [[nodiscard]] bool shares_prefix(const SocketAddress& other, int prefix_bits) const;
  /// "10.0.0.1:4711", "[fd00::1]:4711"
  [[nodiscard]] std::string text() const;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t length() const;

  void encode(ByteWriter& writer) const;
  static std::optional<SocketAddress> decode(ByteReader& reader);

 private:
  [[nodiscard]] std::span<const std::byte> address_bytes() const;
  sockaddr_storage storage_{};
};

/// An address of this host and the network it lies in.
struct Interface {
  std::string name;
  SocketAddress address;
  int prefix_bits = 0;
};

/// Which interfaces may be used, in the syntax of NCCL_SOCKET_IFNAME: a list of prefixes of names,
/// "^" before it for all but these, "=" before it for whole names.
class InterfaceFilter {
 public:
  InterfaceFilter() = default;  ///< allows all
  explicit InterfaceFilter(std::string_view text);
  [[nodiscard]] bool allows(std::string_view name) const;
  /// True if it says in so many words which to use, so that loopback may be meant.
  [[nodiscard]] bool names_some() const { return !names_.empty() && !exclude_; }

 private:
  std::vector<std::string> names_;
  bool exclude_ = false;
  bool whole_names_ = false;
};

/// Usable addresses of this host that are up, no loopback and no link-local ones; loopback too
/// where `filter` names it. Throws Error{usage} that lists the interfaces where the filter leaves
/// none though there are some; `source` is the variable that set the filter.
[[nodiscard]] std::vector<Interface> usable_interfaces(const InterfaceFilter& filter,
                                                       const std::string& source);

}  // namespace tutti::rendezvous
