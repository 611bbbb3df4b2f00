#pragma once

#include <string>

#include "base/environment.hpp"

namespace tutti::rendezvous {

/// Processes with the same `identity` share a kernel, a network and IPC; those with the same
/// `pid_namespace` see each other's pids.
struct HostIdentity {
  std::string identity;       ///< compared as a whole, not for display
  std::string name;           ///< for messages
  std::string pid_namespace;  ///< empty if unreadable
};

/// Built from the kernel's boot id and the network and IPC namespaces (a container with its own
/// network is a host), or from TUTTI_HOST_ID. Throws Error{system} if /proc is not mounted.
[[nodiscard]] HostIdentity find_host_identity(const Environment& environment);

}  // namespace tutti::rendezvous
