#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/peer_info.hpp"

/// Facts about each rank and its host, and results of its probes of other hosts.
namespace tutti::app::doctor {

/// One address of a network interface.
struct LinkFact {
  std::string name;
  std::string address;
  int prefix_bits = 0;
  int speed_mbit = -1;  ///< -1: the driver does not report it
  int mtu = 0;          ///< bytes; 0: not known
  bool chosen = false;  ///< tutti would use it
};

/// Result of a connection attempt to another host.
struct ReachFact {
  int host = 0;                  ///< see launch::Place
  std::string address;           ///< "10.0.0.2:40001"
  std::string failure;           ///< "no answer", "Connection refused"; empty if it worked
  bool on_same_network = false;  ///< the address is in a network of this host
  /// Size of packets that were lost on this connection although smaller ones arrived; 0: none.
  std::uint32_t lost_packet_bytes = 0;
  bool is_ipv6 = false;
};

constexpr std::uint64_t unlimited = ~std::uint64_t{0};

struct Facts {
  rendezvous::PeerInfo info;  ///< its addresses are those of the doctor's listening sockets
  std::vector<LinkFact> links;
  std::vector<std::string> own_name_addresses;  ///< addresses of this host's name
  std::string own_name_failure;
  std::uint64_t locked_memory = unlimited;  ///< soft limit in bytes
  std::int64_t shared_memory = -1;          ///< bytes free in /dev/shm; -1: no /dev/shm
  std::vector<int> cpus;                    ///< affinity mask of the process
  int machine_cpus = 0;                     ///< of the host
  std::string driver_version;  ///< CUDA version of the driver, "12.4"; empty: no driver
  /// Per device: no core of the process is on the device's NUMA node.
  std::vector<bool> device_is_far;
  std::vector<std::pair<int, int>>
      without_peer_access;                      ///< pairs of devices without peer-to-peer access
  std::map<std::string, std::string> settings;  ///< TUTTI_*, NCCL_* and GLOO_*, without secrets
  std::string launcher;                         ///< name of the launcher in launch; empty: unknown
  std::string port_range;
  int ports = 0;            ///< in TUTTI_PORT_RANGE; 0: any
  std::string unsafe_port;  ///< MASTER_PORT, and why another program may use it; empty: it is safe
  std::int64_t clock_ns = 0;      ///< wall clock right after a barrier
  std::vector<std::string> rdma;  ///< devices in /sys/class/infiniband
  std::string token;              ///< what this rank's probe server sends first on each connection
  std::uint64_t nonce_address = 0;  ///< address of the 16 bytes of the token in this process

  // Results of probes. They need the facts above of all ranks.
  std::vector<ReachFact> reached;   ///< from the lowest rank of each host
  std::string single_copy_failure;  ///< why a neighbour's memory can't be read; empty if it can
};

[[nodiscard]] Bytes encode(const Facts& facts);
/// Empty if `bytes` are not facts of this version.
[[nodiscard]] std::optional<Facts> decode(const Bytes& bytes);

}  // namespace tutti::app::doctor
