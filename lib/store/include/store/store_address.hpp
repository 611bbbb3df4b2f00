#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/environment.hpp"
#include "launch/resolve.hpp"
#include "rendezvous/address.hpp"
#include "tutti/deadline.hpp"

/// Bootstrap of jobs without MPI: a store at rank 0.
namespace tutti::store {

/// Address and ports of the store at rank 0.
struct StoreAddress {
  std::string host;          ///< name or address
  std::uint16_t port = 0;    ///< the first candidate port
  int ports = 1;             ///< number of candidate ports; rank 0 takes the first free one
  bool on_one_host = false;  ///< all ranks are on this host: use loopback instead of `host`
  std::string source;        ///< the variables or the option that set it, with their values
  std::string job;           ///< distinguishes jobs that could use the same address

  /// "127.0.0.1:29500", for messages.
  [[nodiscard]] std::string text() const;
  /// True for addresses and "localhost"; other names may resolve to loopback on this host only.
  [[nodiscard]] bool is_explicit() const;
};

/// torchrun's agent, or torch in rank 0, listens at MASTER_PORT; the store uses the first free one
/// of this many ports after it.
inline constexpr int ports_behind_torch = 16;

/// Reads `choice.url`, or for env:// MASTER_ADDR and MASTER_PORT. Throws Error{usage}.
[[nodiscard]] StoreAddress find_store_address(const EnvironmentMap& environment,
                                              const launch::InitChoice& choice,
                                              const launch::Resolved& resolved);

/// Resolves the store's host; the result has its first port. Retries until the deadline while the
/// name cannot be resolved. Throws Error{usage} that names the source.
[[nodiscard]] std::vector<rendezvous::SocketAddress> resolve_addresses(
    const StoreAddress& store_address, Deadline deadline);

/// The wildcard addresses of both families.
[[nodiscard]] std::vector<rendezvous::SocketAddress> wildcard_addresses(std::uint16_t port);

/// True if all addresses are loopback addresses.
[[nodiscard]] bool is_loopback(const std::vector<rendezvous::SocketAddress>& addresses);

}  // namespace tutti::store
