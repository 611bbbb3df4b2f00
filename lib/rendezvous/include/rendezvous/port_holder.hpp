#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.hpp"
#include "rendezvous/address.hpp"

/// Who has a TCP port, as far as the kernel tells. For sentences: nothing is decided by it.
namespace tutti::rendezvous {

/// A line of /proc/net/tcp or /proc/net/tcp6.
struct ListedSocket {
  enum class State : std::uint8_t { listening, closed_not_forgotten, other };
  SocketAddress local;
  SocketAddress peer;
  State state = State::other;
  unsigned uid = 0;
  std::uint64_t inode = 0;  ///< 0: it belongs to no process any more
};

/// Lines that can't be read are left out.
[[nodiscard]] std::vector<ListedSocket> parse_tcp_table(std::string_view text);

/// The one of `sockets` that most likely keeps others from listening at `address`.
[[nodiscard]] const ListedSocket* find_holder(const std::vector<ListedSocket>& sockets,
                                              const SocketAddress& address);

/// "pid 4711 (python3) listens there"; "another program has the port" where nothing is known.
[[nodiscard]] std::string describe_holder(const SocketAddress& address);

/// The ports that the kernel gives to outgoing connections (net.ipv4.ip_local_port_range), of which
/// any may be taken at any time.
[[nodiscard]] PortRange ports_of_connections();

/// True if the kernel leaves it out of them (net.ipv4.ip_local_reserved_ports,
/// "29500,40000-40015").
[[nodiscard]] bool is_reserved(std::string_view reserved, int port);

/// Empty where no outgoing connection can have been given the port, else why it can, and what to
/// do.
[[nodiscard]] std::string why_port_is_unsafe(int port);

}  // namespace tutti::rendezvous
