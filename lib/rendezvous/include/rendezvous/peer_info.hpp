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

/// A GPU visible to a rank.
struct PeerDevice {
  std::string uuid;
  std::string name;
  std::string bus_id;
  bool is_slice = false;  ///< a MIG instance
};

/// What a rank publishes about itself in the all-gather of set-up.
struct PeerInfo {
  std::string version;                          ///< of tutti; checked before the rest is decoded
  std::map<std::string, std::string> settings;  ///< must be equal on all ranks
  HostIdentity host;
  std::uint32_t pid = 0;
  std::uint64_t process_start =
      0;  ///< kernel ticks since boot; identifies the process together with its pid
  std::uint32_t cores = 0;       ///< number of cores that the process may run on
  std::uint32_t first_core = 0;  ///< lowest core number among them
  std::uint64_t open_files_limit =
      0;  ///< on its descriptors, after the soft limit was raised to the hard one
  std::uint64_t open_files = 0;         ///< at set-up, including its listening sockets
  std::vector<PeerDevice> devices;      ///< ordered by index; filled in by lib/device
  std::optional<std::uint32_t> device;  ///< index of the one that the program chose, if it did
  std::string no_device_reason;         ///< why there are no devices; empty if there are some
  std::uint32_t nccl_version = 0;       ///< in NCCL's numbering; 0: no NCCL
  std::string no_nccl_reason;
  std::vector<SocketAddress> addresses;  ///< of its listeners, preferred first
  std::string failure;                   ///< why set-up failed on this rank; empty if it did not
  bool failure_is_usage = false;         ///< the failure is caused by a setting
  std::vector<CpuQuota> cpu_quotas;      ///< of its control groups, innermost first

  [[nodiscard]] Bytes encode() const;
  /// Empty if `bytes` is not valid peer info. Peer info of another version has only `version` set.
  static std::optional<PeerInfo> decode(const Bytes& bytes);
};

/// Fills in everything but `addresses`, `devices` and NCCL.
[[nodiscard]] PeerInfo make_peer_info(const Environment& environment);

/// Start time of the process, in kernel ticks since boot; 0 if there is no such process or it is
/// unreadable.
[[nodiscard]] std::uint64_t process_start_ticks(std::uint32_t pid);

/// Throws Error{mismatch}, the same on every rank, if versions or settings differ.
void require_agreement(const std::vector<PeerInfo>& infos);

}  // namespace tutti::rendezvous
