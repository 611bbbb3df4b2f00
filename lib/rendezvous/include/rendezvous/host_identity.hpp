#pragma once

#include <string>

#include "base/environment.hpp"

namespace tutti::rendezvous {

/// Processes with the same identity share a kernel, a network and IPC; those with the same pid
/// namespace see each other's pids.
struct HostIdentity {
  std::string identity;       ///< compared as a whole, never shown
  std::string name;           ///< for people
  std::string pid_namespace;  ///< empty where it can't be read
};

/// From the kernel's boot id with the network and IPC namespaces (a container is a host of its own
/// where it has its own network), or from TUTTI_HOST_ID. Throws Error{system} where /proc is not
/// mounted.
[[nodiscard]] HostIdentity find_host_identity(const Environment& environment);

}  // namespace tutti::rendezvous
