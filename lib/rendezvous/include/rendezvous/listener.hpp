#pragma once

#include <vector>

#include "base/descriptor.hpp"
#include "rendezvous/interfaces.hpp"

namespace tutti::rendezvous {

/// A listening socket and its address.
struct Listener {
  Descriptor socket;
  SocketAddress address;
};

/// Listens on loopback and on each of `interfaces`, at ports chosen by the kernel or at the first
/// free port of `ports`. Skips addresses that cannot be bound. Throws Error{system} if none can, or
/// if all of `ports` are in use.
[[nodiscard]] std::vector<Listener> open_listeners(const std::vector<Interface>& interfaces,
                                                   SocketFamily family = SocketFamily::any,
                                                   PortRange ports = {});

/// Closes loopback if no peer is on this host, and all other listeners if all peers are.
void close_unneeded_listeners(std::vector<Listener>& listeners, bool peers_on_this_host,
                              bool peers_elsewhere);

}  // namespace tutti::rendezvous
