#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.hpp"
#include "rendezvous/address.hpp"

/// Finds the owner of a TCP port from /proc. For messages only: no decision depends on it.
namespace tutti::rendezvous {

/// A line of /proc/net/tcp or /proc/net/tcp6.
struct ListedSocket {
  enum class State : std::uint8_t { listening, time_wait, other };
  SocketAddress local;
  SocketAddress peer;
  State state = State::other;
  unsigned uid = 0;
  std::uint64_t inode = 0;  ///< 0: no process owns it
};

/// Skips malformed lines.
[[nodiscard]] std::vector<ListedSocket> parse_tcp_table(std::string_view text);

/// The one of `sockets` that most likely blocks listening at `address`.
[[nodiscard]] const ListedSocket* find_holder(const std::vector<ListedSocket>& sockets,
                                              const SocketAddress& address);

/// "pid 4711 (python3) listens there"; "another program has the port" if the owner is unknown.
[[nodiscard]] std::string describe_holder(const SocketAddress& address);

/// The kernel's range of ephemeral ports (net.ipv4.ip_local_port_range).
[[nodiscard]] PortRange ephemeral_ports();

/// True if `reserved`, the text of net.ipv4.ip_local_reserved_ports ("29500,40000-40015"), excludes
/// `port` from the ephemeral ports.
[[nodiscard]] bool is_reserved(std::string_view reserved, int port);

/// A warning if `port` is an ephemeral port and so may be taken by an outgoing connection; else
/// empty.
[[nodiscard]] std::string ephemeral_port_warning(int port);

}  // namespace tutti::rendezvous
