#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault_injection.hpp"
#include "tutti/options.hpp"

namespace tutti {

using EnvironmentMap = std::map<std::string, std::string, std::less<>>;

/// The process's current environment, without TUTTI_SECRET, which must not be listed: see
/// bootstrap/shared_secret.hpp.
[[nodiscard]] EnvironmentMap current_environment();

/// Address families to use.
enum class SocketFamily : std::uint8_t { any, v4, v6 };

/// Whether ranks of a host read each other's memory by process_vm_readv, where the kernel lets
/// them.
enum class SingleCopyUse : std::uint8_t {
  automatic,  ///< where it is faster
  always,
  off,
};

/// What takes collective calls on device memory: TUTTI_DEVICE_PATH.
enum class DevicePathChoice : std::uint8_t {
  automatic,  ///< the direct path for small buffers inside a host, else NCCL
  nccl,       ///< always NCCL
  direct,     ///< the direct path for all that it can do
};

/// Ports for listening sockets, both ends included; by default the kernel chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  [[nodiscard]] bool is_set() const { return first != 0; }
  /// "40000-40015"
  [[nodiscard]] std::string text() const;
};

/// All variables that the library reads, read once. docs/environment.md describes them for users.
struct Environment {
  /// TUTTI_TIMEOUT: limit for set-up and for each call ("60s", "500ms"; plain numbers are seconds).
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  /// TUTTI_LOG: quiet, warning, info or debug.
  LogLevel log_level = LogLevel::warning;
  /// TUTTI_BACKEND: auto, cpu or nccl; must be the same on all ranks.
  BackendChoice backend = BackendChoice::automatic;
  /// TUTTI_DEVICE_PATH: auto, nccl or direct; must be the same on all ranks.
  DevicePathChoice device_path = DevicePathChoice::automatic;
  /// TUTTI_TUNING, or TUTTI_PROFILE: the file of `tutti tune` with the sizes up to which the direct
  /// path is faster than NCCL on this machine (device/tuning.hpp); by default in the user's cache
  /// folder. Empty: none, because it is "off" or there is no such folder.
  std::string tuning_file;
  /// TUTTI_HOST_ID: replaces this host's identity and name, for tests and unusual containers;
  /// empty: detected.
  std::string host_id;
  /// TUTTI_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME, else GLOO_SOCKET_IFNAME: which network
  /// interfaces may be used.
  std::string socket_ifname;
  /// The name of the variable that set `socket_ifname`, for error messages.
  std::string socket_ifname_source;
  /// TUTTI_SOCKET_FAMILY: 4, 6 or any.
  SocketFamily socket_family = SocketFamily::any;
  /// TUTTI_PORT_RANGE: "40000-40015", the ports of all listening sockets.
  PortRange port_range;
  /// TUTTI_KEEPALIVE: a host that does not respond for this time is lost ("15s"; at least 1 s).
  std::chrono::seconds keepalive{15};
  /// TUTTI_ALGORITHM: algorithm of collective calls that specify none; must be the same on all
  /// ranks.
  std::string algorithm;
  /// TUTTI_CHUNK: chunk size in bytes of pipelined algorithms; must be the same on all ranks. 0:
  /// from the algorithm and the cost model.
  std::size_t chunk_bytes = 0;
  /// TUTTI_MODEL: a file with the cost model's parameters (algorithm/cost_model.hpp); empty:
  /// defaults.
  std::string model_file;
  /// Text of model_file, once read; must be the same on all ranks.
  std::string model;
  /// TUTTI_EAGER: maximum size in bytes of eager messages inside a host, and between hosts, where a
  /// message that is not eager waits for the network; must be the same on all ranks.
  std::size_t eager_bytes = std::size_t{16} << 10;
  std::size_t far_eager_bytes = std::size_t{64} << 10;
  /// TUTTI_DETERMINISTIC: 1: results of reductions do not depend on chunk size or on the partition
  /// into calls; must be the same on all ranks.
  bool deterministic = false;
  /// TUTTI_SECRET_FILE: a file with a secret shared by all ranks; empty: rank 0 draws a secret and
  /// the bootstrap distributes it.
  std::string secret_file;
  /// TUTTI_FAULT: injected faults ("kill:rank=2,call=100"), for tests.
  std::vector<Fault> faults;
  /// TUTTI_RECORD: a folder for each rank's latest calls, written on an error and on SIGUSR1;
  /// empty: none.
  std::string record_folder;
  /// TUTTI_SHARED_MEMORY: 0: ranks of one host use TCP; must be the same on all ranks.
  bool shared_memory = true;
  /// TUTTI_SINGLE_COPY: auto, always or off.
  SingleCopyUse single_copy = SingleCopyUse::automatic;
  /// TUTTI_ENCRYPT: 1: TLS on all links; must be the same on all ranks.
  bool encrypt = false;
  /// TUTTI_CONGESTION: TCP congestion control of data links ("cubic"); empty: the system's, except
  /// bbr.
  std::string congestion;

  /// Throws Error{usage} that names the variable and its value.
  static Environment from(const EnvironmentMap& map);

  /// Settings that must be equal on all ranks, by variable.
  [[nodiscard]] std::map<std::string, std::string> agreed_settings() const;
};

/// Parses "auto", "cpu" (also "host", "gloo" and "tcp"), "nccl"; else empty.
[[nodiscard]] std::optional<BackendChoice> parse_backend(std::string_view text);

/// Parses "60s", "500ms", "5us", "2m", "1.5" (seconds). Empty if malformed, negative, or over a
/// year.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

/// Parses "40000-40015", or "40000" for one port. Empty if not a range of ports from 1 to 65535.
[[nodiscard]] std::optional<PortRange> parse_port_range(std::string_view text);

/// Parses "4096", "4KiB", "1.5MiB", "2GiB" to bytes. Empty if malformed or too large.
[[nodiscard]] std::optional<std::size_t> parse_size(std::string_view text);

}  // namespace tutti
