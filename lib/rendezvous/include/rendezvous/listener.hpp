#pragma once

#include <vector>

#include "base/descriptor.hpp"
#include "rendezvous/interfaces.hpp"

namespace tutti::rendezvous {

/// A listening socket and the address that peers reach it at.
struct Listener {
  Descriptor socket;
  SocketAddress address;
};

/// Listens on loopback and on each of `interfaces`, on ports that the kernel chooses, or on the
/// first free ones of `ports`. An address that can't be bound is left out; throws Error{system}
/// where none can, or where all of `ports` are taken.
[[nodiscard]] std::vector<Listener> listen_everywhere(const std::vector<Interface>& interfaces,
                                                      SocketFamily family = SocketFamily::any,
                                                      PortRange ports = {});

/// Closes what no peer will need: loopback where no peer is on this host, all else where no peer is
/// elsewhere.
void close_unneeded(std::vector<Listener>& listeners, bool peers_on_this_host,
                    bool peers_elsewhere);

}  // namespace tutti::rendezvous
