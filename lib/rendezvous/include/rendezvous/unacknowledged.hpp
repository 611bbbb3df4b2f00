#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti::rendezvous {

/// Maximum IP packet size, in bytes, of connections that must work on paths that drop large
/// packets: the minimum MTU of IPv6.
inline constexpr std::uint32_t small_packet_bytes = 1280;

/// Data that a TCP connection has retransmitted at least twice in a row without an acknowledgement.
struct Unacknowledged {
  std::uint64_t bytes = 0;         ///< in flight, without data not sent yet
  std::uint32_t times = 0;         ///< consecutive retransmissions
  std::uint32_t packet_bytes = 0;  ///< largest IP packet in flight
  bool is_ipv6 = false;

  /// True if smaller packets may pass where these do not.
  [[nodiscard]] bool is_large() const { return packet_bytes > small_packet_bytes; }
  friend bool operator==(const Unacknowledged&, const Unacknowledged&) = default;
};

/// Empty for sockets that are not TCP connections.
[[nodiscard]] std::optional<Unacknowledged> find_unacknowledged(int socket);

/// "13032 bytes that rank 0 (a) has sent to rank 1 (b) are not acknowledged after 4
/// retransmissions"
[[nodiscard]] std::string describe(const Unacknowledged& lost, const std::string& from,
                                   const std::string& to);
/// How to check whether packets of `lost` exceed the MTU of a link between the two hosts, and the
/// remedy.
[[nodiscard]] std::string mtu_remedy(const Unacknowledged& lost, const std::string& from,
                                     const std::string& to);

/// This host's name, for messages.
[[nodiscard]] std::string own_host();

/// describe() for all TCP connections of this process, including MPI's, as the end of a sentence
/// ("; …"); empty if all data is acknowledged. Peers are given by address.
[[nodiscard]] std::string describe_unacknowledged_data();

}  // namespace tutti::rendezvous
