#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/control_groups.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/host_identity.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::rendezvous {

/// A GPU that a rank sees.
struct PeerDevice {
  std::string uuid;
  std::string name;
  std::string bus_id;
  bool is_slice = false;  ///< a MIG instance
};

/// What a rank tells all others of itself, once, in one all-gather.
struct PeerInfo {
  std::string version;                          ///< of tutti; read before the rest is believed
  std::map<std::string, std::string> settings;  ///< must be the same on all ranks
  HostIdentity host;
  std::uint32_t pid = 0;
  std::uint64_t process_start =
      0;                    ///< kernel ticks since boot; with the pid it names one process for ever
  std::uint32_t cores = 0;  ///< that the process may run on
  std::uint32_t first_core = 0;  ///< the lowest of them, as the kernel numbers them
  std::uint64_t open_files_limit =
      0;                            ///< on its descriptors, the soft limit raised to the hard one
  std::uint64_t open_files = 0;     ///< when the info was made, its listening sockets among them
  std::vector<PeerDevice> devices;  ///< in the order of their indices; filled in by lib/device
  std::string no_device_because;    ///< empty if there are some
  std::uint32_t nccl_version = 0;   ///< as NCCL numbers it; 0: none
  std::string no_nccl_because;
  std::vector<SocketAddress> addresses;  ///< where it listens, the preferred first
  std::string failure;                   ///< why it can't listen; empty where it can
  bool failure_is_usage = false;         ///< by what somebody has set
  std::vector<CpuQuota> cpu_quotas;      ///< of its control groups, from the innermost outwards

  [[nodiscard]] Bytes encode() const;
  /// Empty where `bytes` is no peer info of this version. peer info of another version has only
  /// `version`.
  static std::optional<PeerInfo> decode(const Bytes& bytes);
};

/// Fills in all but the addresses.
[[nodiscard]] PeerInfo make_peer_info(const Environment& environment);

/// When the process started, in kernel ticks since boot; 0 where it can't be read (no such
/// process).
[[nodiscard]] std::uint64_t process_start_ticks(std::uint32_t pid);

/// Throws Error{mismatch}, the same on every rank, where two infos have another version or
/// contradicting settings.
void require_agreement(const std::vector<PeerInfo>& infos);

}  // namespace tutti::rendezvous
