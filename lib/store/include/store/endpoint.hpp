#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/environment.hpp"
#include "launch/resolve.hpp"
#include "rendezvous/address.hpp"
#include "tutti/deadline.hpp"

/// Where a job without MPI meets, and how its ranks exchange their first bytes there.
namespace tutti::store {

/// Where rank 0 serves the others.
struct Endpoint {
  std::string host;          ///< name or address
  std::uint16_t port = 0;    ///< the first that may be it
  int ports = 1;             ///< rank 0 takes the first free one of so many in a row
  bool on_one_host = false;  ///< all ranks are on this host: it is loopback, whatever `host` says
  std::string source;        ///< the variables or the option that say so, with their values
  std::string job;           ///< tells jobs apart that could be taken for each other

  /// "127.0.0.1:29500"
  [[nodiscard]] std::string text() const;
  /// False for names that this host alone may take for loopback.
  [[nodiscard]] bool says_where() const;
};

/// torchrun's agent holds MASTER_PORT itself, or torch does in rank 0: we meet at the first free
/// one of so many ports behind it.
inline constexpr int ports_behind_torch = 16;

/// From `choice.url`, and for env:// from MASTER_ADDR and MASTER_PORT. Throws Error{usage}.
[[nodiscard]] Endpoint find_endpoint(const EnvironmentMap& environment,
                                     const launch::InitChoice& choice,
                                     const launch::Resolved& resolved);

/// The addresses of the endpoint's host, with its first port. A name that nobody knows yet is asked
/// for again until the deadline. Throws Error{usage} that names the source.
[[nodiscard]] std::vector<rendezvous::SocketAddress> addresses_of(const Endpoint& endpoint,
                                                                  Deadline deadline);

/// The wildcard addresses of both families.
[[nodiscard]] std::vector<rendezvous::SocketAddress> every_address(std::uint16_t port);

/// True if nobody outside of this host can reach it.
[[nodiscard]] bool is_loopback(const std::vector<rendezvous::SocketAddress>& addresses);

}  // namespace tutti::store
