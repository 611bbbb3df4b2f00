#include "rendezvous/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/system_error.hpp"

namespace tutti::rendezvous {
namespace {

constexpr int backlog = 256;

/// Returns 0, or the errno of what failed.
int listen_at(SocketAddress address, Listener& listener) {
  Descriptor socket(
      ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket) return errno;
  const int on = 1;
  if (address.family() == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (::bind(socket.get(), address.get(), address.length()) != 0) return errno;
  if (::listen(socket.get(), backlog) != 0) return errno;
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) return errno;
  listener.address = SocketAddress(reinterpret_cast<const sockaddr*>(&bound));
  listener.socket = std::move(socket);
  return 0;
}

}  // namespace

std::vector<Listener> listen_everywhere(const std::vector<Interface>& interfaces) {
  std::vector<SocketAddress> addresses;
  for (const auto& interface : interfaces) addresses.push_back(interface.address);
  const bool has_loopback = std::any_of(addresses.begin(), addresses.end(),
                                        [](const auto& address) { return address.is_loopback(); });
  if (!has_loopback) addresses.push_back(SocketAddress::loopback_v4());

  std::vector<Listener> listeners;
  std::string failures;
  for (const auto& address : addresses) {
    Listener listener;
    if (const int error = listen_at(address, listener); error == 0) {
      listeners.push_back(std::move(listener));
    } else {
      failures +=
          fmt::format("{}{}: {}", failures.empty() ? "" : "; ", address.text(), errno_text(error));
    }
  }
  if (listeners.empty()) {
    throw Error(ErrorCode::system, "can't listen at any address of this host: " + failures);
  }
  return listeners;
}

void close_unneeded(std::vector<Listener>& listeners, bool peers_on_this_host,
                    bool peers_elsewhere) {
  const auto count_loopback =
      std::count_if(listeners.begin(), listeners.end(),
                    [](const Listener& listener) { return listener.address.is_loopback(); });
  // Where loopback is all there is, "hosts" are made up by TUTTI_HOST_ID and meet on it.
  const bool only_loopback = count_loopback == static_cast<std::ptrdiff_t>(listeners.size());
  std::erase_if(listeners, [&](const Listener& listener) {
    if (listener.address.is_loopback()) return !peers_on_this_host && !only_loopback;
    return !peers_elsewhere && count_loopback > 0;
  });
}

}  // namespace tutti::rendezvous
