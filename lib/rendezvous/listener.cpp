#include "rendezvous/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/system_error.hpp"
#include "rendezvous/port_holder.hpp"
#include "rendezvous/tcp_socket.hpp"

namespace tutti::rendezvous {
namespace {

constexpr int backlog = 256;

/// Returns 0 or an errno. Port 0: the kernel chooses.
int listen_at_port(const SocketAddress& address, Listener& listener) {
  Descriptor socket(
      ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket) return errno;
  const int on = 1;
  if (address.family() == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  // Allows the port of a job that has just ended. If another socket listens there, listen() fails.
  if (address.port() != 0) set_reuse_address(socket.get());
  if (::bind(socket.get(), address.get(), address.length()) != 0) return errno;
  if (::listen(socket.get(), backlog) != 0) return errno;
  // For accepted connections. Only after the kernel chose the port: with SO_REUSEADDR it searches
  // half of its range only.
  set_reuse_address(socket.get());
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) return errno;
  listener.address = SocketAddress(reinterpret_cast<const sockaddr*>(&bound));
  listener.socket = std::move(socket);
  listener.socket.close_on_fork();
  return 0;
}

int listen_at(SocketAddress address, PortRange ports, Listener& listener) {
  if (!ports.is_set()) return listen_at_port(address, listener);
  int error = 0;
  for (int port = ports.first; port <= ports.last; ++port) {
    address.set_port(static_cast<std::uint16_t>(port));
    error = listen_at_port(address, listener);
    if (error != EADDRINUSE && error != EACCES) return error;
  }
  throw Error(ErrorCode::system,
              fmt::format("TUTTI_PORT_RANGE={} is exhausted on this host: no free port at "
                          "{} ({}{}); set a range with at least one port for each rank of a "
                          "host",
                          ports.text(), address.host_text(), errno_text(error),
                          error == EADDRINUSE
                              ? fmt::format(", at {}: {}", address.port(), describe_holder(address))
                              : std::string()));
}

}  // namespace

std::vector<Listener> open_listeners(const std::vector<Interface>& interfaces, SocketFamily family,
                                     PortRange ports) {
  std::vector<Listener> listeners;
  std::string failures;
  const auto try_at = [&](const SocketAddress& address) {
    Listener listener;
    if (const int error = listen_at(address, ports, listener); error == 0) {
      listeners.push_back(std::move(listener));
      return true;
    } else {
      failures +=
          fmt::format("{}{}: {}", failures.empty() ? "" : "; ", address.text(), errno_text(error));
      return false;
    }
  };
  bool has_loopback = false;
  for (const auto& interface : interfaces) {
    const bool listens = try_at(interface.address);
    has_loopback |= listens && interface.address.is_loopback();
  }
  // A host without IPv4 has the IPv6 loopback.
  if (!has_loopback && family != SocketFamily::v6)
    has_loopback = try_at(SocketAddress::loopback_v4());
  if (!has_loopback && family != SocketFamily::v4) try_at(SocketAddress::loopback_v6());
  if (listeners.empty()) {
    throw Error(ErrorCode::system, "can't listen at any address of this host: " + failures);
  }
  return listeners;
}

void close_unneeded_listeners(std::vector<Listener>& listeners, bool peers_on_this_host,
                              bool peers_elsewhere) {
  const auto count_loopback =
      std::count_if(listeners.begin(), listeners.end(),
                    [](const Listener& listener) { return listener.address.is_loopback(); });
  // With only loopback, "hosts" are defined by TUTTI_HOST_ID and connect through it.
  const bool only_loopback = count_loopback == static_cast<std::ptrdiff_t>(listeners.size());
  std::erase_if(listeners, [&](const Listener& listener) {
    if (listener.address.is_loopback()) return !peers_on_this_host && !only_loopback;
    return !peers_elsewhere && count_loopback > 0;
  });
}

}  // namespace tutti::rendezvous
