#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tutti::rendezvous {

/// The largest IP packet, in bytes, of connections that must work where large packets get lost. Any
/// link that carries IPv6 carries it.
inline constexpr std::uint32_t small_packet_bytes = 1280;

/// Data that a TCP connection has sent in vain: the kernel has sent it again, at least twice in a
/// row, and the other end's kernel has acknowledged nothing.
struct Unacknowledged {
  std::uint64_t bytes = 0;         ///< on their way, without what was not sent yet
  std::uint32_t times = 0;         ///< sent again, in a row
  std::uint32_t packet_bytes = 0;  ///< the largest IP packet among them
  bool is_ipv6 = false;

  /// Whether smaller packets may pass where these do not.
  [[nodiscard]] bool is_large() const { return packet_bytes > small_packet_bytes; }
  friend bool operator==(const Unacknowledged&, const Unacknowledged&) = default;
};

/// Sockets that are no TCP connections have none.
[[nodiscard]] std::optional<Unacknowledged> find_unacknowledged(int socket);

/// "13032 bytes that rank 0 (a) has sent to rank 1 (b) are not acknowledged after 4
/// retransmissions"
[[nodiscard]] std::string describe(const Unacknowledged& lost, const std::string& from,
                                   const std::string& to);
/// How to find out whether packets of `lost` are too large for a link on the way from one host to
/// another, and what to do then.
[[nodiscard]] std::string mtu_remedy(const Unacknowledged& lost, const std::string& from,
                                     const std::string& to);

/// This host's name, for people.
[[nodiscard]] std::string own_host();

/// All this of the TCP connections of this process, MPI's included, as the end of a sentence
/// ("; …"); empty where all is acknowledged. The other ends are named by their addresses.
[[nodiscard]] std::string unacknowledged_here();

}  // namespace tutti::rendezvous
