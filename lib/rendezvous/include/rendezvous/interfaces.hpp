#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.hpp"
#include "rendezvous/address.hpp"

namespace tutti::rendezvous {

/// An address of this host and the network it lies in.
struct Interface {
  std::string name;
  SocketAddress address;
  int prefix_bits = 0;
};

/// Which interfaces may be used, in the syntax of NCCL_SOCKET_IFNAME: a list of prefixes of names,
/// "^" before it for all but these, "=" before it for whole names. An entry with a slash is a
/// network ("10.0.0.0/8", "fd00::/8") and stands for the addresses that lie in it.
class InterfaceFilter {
 public:
  InterfaceFilter() = default;  ///< allows all
  /// Throws Error{usage} that begins with `source`, the variable and its value, where an entry is
  /// no network although it has a slash.
  explicit InterfaceFilter(std::string_view text, const std::string& source = {});
  /// By its name alone: where no network is listed.
  [[nodiscard]] bool allows(std::string_view name) const;
  [[nodiscard]] bool allows(const Interface& interface) const;
  /// True if it says in so many words which to use, so that loopback may be meant.
  [[nodiscard]] bool names_some() const { return is_set() && !exclude_; }
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

/// Bridges inside a host, by their usual names: often the same address on every host, and seldom a
/// way to another.
[[nodiscard]] bool is_virtual_bridge(std::string_view name);

/// All addresses of this host on interfaces that are up, loopback among them.
[[nodiscard]] std::vector<Interface> all_interfaces();

/// Those of `all` that may be used, in the order in which they should be tried: no loopback, but
/// where `filter` names it, and no link-local ones; bridges of containers and virtual machines
/// last. Throws Error{usage} that lists the interfaces where the settings leave none though there
/// are some; `source` is the variable that set the filter, with its value.
[[nodiscard]] std::vector<Interface> choose_interfaces(std::vector<Interface> all,
                                                       const InterfaceFilter& filter,
                                                       const std::string& source,
                                                       SocketFamily family = SocketFamily::any);

/// The same of this host, as the environment says.
[[nodiscard]] std::vector<Interface> usable_interfaces(const Environment& environment);

/// Throws Error{mismatch}, the same on every rank, where ranks of two hosts could never meet: no
/// address family in common, or nothing but loopback. `addresses[r]`, `hosts[r]` and
/// `identities[r]` are of rank r.
void require_common_family(const std::vector<std::vector<SocketAddress>>& addresses,
                           const std::vector<std::string>& hosts,
                           const std::vector<std::string>& identities);

}  // namespace tutti::rendezvous
