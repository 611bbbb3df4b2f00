#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.hpp"
#include "rendezvous/address.hpp"

namespace tutti::rendezvous {

/// An address of this host and the size of its network.
struct Interface {
  std::string name;
  SocketAddress address;
  int prefix_bits = 0;
};

/// Selects interfaces, in the syntax of NCCL_SOCKET_IFNAME: a list of name prefixes; a leading "^"
/// excludes them, a leading "=" matches whole names. An entry with a slash is a network
/// ("10.0.0.0/8", "fd00::/8") and matches the addresses in it.
class InterfaceFilter {
 public:
  InterfaceFilter() = default;  ///< allows all
  /// Throws Error{usage} if an entry with a slash is not a valid network. `source` (the variable
  /// and its value) starts the message.
  explicit InterfaceFilter(std::string_view text, const std::string& source = {});
  /// The filter that `environment` sets. GLOO_SOCKET_IFNAME lists whole names, as Gloo reads it.
  [[nodiscard]] static InterfaceFilter from(const Environment& environment);
  /// Matches by name only, ignoring networks.
  [[nodiscard]] bool allows(std::string_view name) const;
  [[nodiscard]] bool allows(const Interface& interface) const;
  /// True if the filter lists what to use (no "^"); then it may select loopback too.
  [[nodiscard]] bool is_allow_list() const { return is_set() && !exclude_; }
  [[nodiscard]] bool is_set() const { return !names_.empty() || !networks_.empty(); }

 private:
  struct Network {
    SocketAddress address;
    int prefix_bits;
  };
  [[nodiscard]] bool lists(std::string_view name) const;

  std::vector<std::string> names_;
  std::vector<Network> networks_;
  bool exclude_ = false;
  bool whole_names_ = false;
};

/// True for the usual names of bridges inside a host: they often have the same address on every
/// host and seldom lead to another one.
[[nodiscard]] bool is_virtual_bridge(std::string_view name);

/// All addresses of this host on interfaces that are up and have a carrier, including loopback.
[[nodiscard]] std::vector<Interface> all_interfaces();

/// Returns the usable ones of `all` in the order to try them: no link-local addresses, loopback
/// only if `filter` lists it, bridges of containers and virtual machines last. Throws Error{usage}
/// that lists the interfaces if `filter` or `family` leaves none; `source` is the variable that set
/// the filter, with its value.
[[nodiscard]] std::vector<Interface> choose_interfaces(std::vector<Interface> all,
                                                       const InterfaceFilter& filter,
                                                       const std::string& source,
                                                       SocketFamily family = SocketFamily::any);

/// choose_interfaces() on this host's interfaces with the settings of `environment`.
[[nodiscard]] std::vector<Interface> usable_interfaces(const Environment& environment);

/// Binds a socket that is about to connect to `target` to that of `sources` which is in its
/// network, or to the only one of its family. Leaves the socket unbound if `sources` is empty,
/// `target` is loopback, or the routing table has to choose. Returns 0 or an errno.
[[nodiscard]] int bind_source(int socket, const std::vector<Interface>& sources,
                              const SocketAddress& target);

/// Throws Error{mismatch}, the same on every rank, if ranks of two hosts cannot connect: no common
/// address family, or only loopback. `addresses[r]`, `hosts[r]` and `identities[r]` belong to rank
/// r.
void require_common_family(const std::vector<std::vector<SocketAddress>>& addresses,
                           const std::vector<std::string>& hosts,
                           const std::vector<std::string>& identities);

}  // namespace tutti::rendezvous
