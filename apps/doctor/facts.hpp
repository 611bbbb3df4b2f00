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

/// One address of an interface.
struct LinkFact {
  std::string name;
  std::string address;
  int prefix_bits = 0;
  int speed_mbit = -1;  ///< -1: the driver does not say
  int mtu = 0;          ///< bytes; 0: not known
  bool chosen = false;  ///< tutti would use it
};

/// What came of a connection to another host.
struct ReachFact {
  int host = 0;                  ///< index, as in launch::Place
  std::string address;           ///< "10.0.0.2:40001"
  std::string failure;           ///< "no answer", "Connection refused"; empty where it worked
  bool on_same_network = false;  ///< the address lies in a network of this host
  /// Of the packets that got lost on this connection where smaller ones arrived; 0: none did.
  std::uint32_t lost_packet_bytes = 0;
  bool is_ipv6 = false;
};

constexpr std::uint64_t unlimited = ~std::uint64_t{0};

struct Facts {
  rendezvous::PeerInfo info;  ///< its addresses are those where the doctor listens
  std::vector<LinkFact> links;
  std::vector<std::string> own_name_addresses;  ///< what this host's own name resolves to
  std::string own_name_failure;
  std::uint64_t locked_memory = unlimited;  ///< soft limit in bytes
  std::int64_t shared_memory = -1;          ///< free in /dev/shm in bytes; -1: there is none
  std::vector<int> cpus;                    ///< that the process may run on
  int machine_cpus = 0;                     ///< of the whole host
  std::string driver_version;               ///< of the NVIDIA driver's CUDA, "12.4"; empty: none
  std::vector<bool> device_is_far;  ///< by device: on_same_network no core that the process may use
  std::vector<std::pair<int, int>>
      without_peer_access;                      ///< devices that can't reach each other's memory
  std::map<std::string, std::string> settings;  ///< TUTTI_*, NCCL_* and GLOO_*, but no secret
  std::string launcher;  ///< that started the process, by its name in launch; empty: not known
  std::string port_range;
  int ports = 0;                    ///< in TUTTI_PORT_RANGE; 0: any
  std::string unsafe_port;          ///< MASTER_PORT, and why it may be taken; empty: it is not
  std::int64_t clock_ns = 0;        ///< wall clock right after a barrier
  std::vector<std::string> rdma;    ///< devices in /sys/class/infiniband
  std::string token;                ///< what this rank's doctor sends first on each connection
  std::uint64_t nonce_address = 0;  ///< of 16 bytes in its memory: the token

  // Results of probes, which need the facts above of all ranks.
  std::vector<ReachFact> reached;   ///< by the lowest rank of each host
  std::string single_copy_failure;  ///< why a neighbour's memory can't be read; empty: it can
};

[[nodiscard]] Bytes encode(const Facts& facts);
/// Empty where `bytes` are no facts of this version.
[[nodiscard]] std::optional<Facts> decode(const Bytes& bytes);

}  // namespace tutti::app::doctor
