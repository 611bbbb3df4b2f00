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

/// The process's environment as it is now, without TUTTI_SECRET, which belongs in no listing: see
/// bootstrap/shared_secret.hpp.
[[nodiscard]] EnvironmentMap current_environment();

/// Which addresses may be used.
enum class SocketFamily : std::uint8_t { any, v4, v6 };

/// The ports that may be listened at, both ends included; by default the kernel's choice.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  [[nodiscard]] bool is_set() const { return first != 0; }
  /// "40000-40015"
  [[nodiscard]] std::string text() const;
};

/// Every variable that the library reads, read once. docs/environment.md says the same for users.
struct Environment {
  /// TUTTI_TIMEOUT: bound on set-up and on each call ("60s", "500ms"; plain numbers are seconds).
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  /// TUTTI_LOG: quiet, warning, info or debug.
  LogLevel log_level = LogLevel::warning;
  /// TUTTI_BACKEND: auto, cpu or nccl; must be the same on all ranks.
  BackendChoice backend = BackendChoice::automatic;
  /// TUTTI_HOST_ID: taken as this host's identity and name, for tests and odd containers; empty:
  /// found by itself.
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
  /// TUTTI_KEEPALIVE: a host that is silent this long is lost ("15s"; at least 1 s).
  std::chrono::seconds keepalive{15};
  /// TUTTI_ALGORITHM: algorithm of every collective call that names none; must be the same on all
  /// ranks.
  std::string algorithm;
  /// TUTTI_CHUNK: bytes that a pipelined algorithm moves at once; must be the same on all ranks. 0:
  /// as the algorithm and the cost model have it.
  std::size_t chunk_bytes = 0;
  /// TUTTI_MODEL: a file that says what moving data costs here (algorithm/cost_model.hpp); empty:
  /// defaults.
  std::string model_file;
  /// Its text, once somebody has read it; must be the same on all ranks.
  std::string model;
  /// TUTTI_EAGER: messages up to this many bytes are sent before the receiver asks; must be the
  /// same on all ranks.
  std::size_t eager_bytes = std::size_t{16} << 10;
  /// TUTTI_DETERMINISTIC: 1: results of reductions do not depend on chunking or on how data is cut
  /// into calls; must be the same on all ranks.
  bool deterministic = false;
  /// TUTTI_SECRET_FILE: a file whose text every rank has and nobody else; empty: the bootstrap
  /// hands round a secret that rank 0 draws.
  std::string secret_file;
  /// TUTTI_FAULT: faults on purpose ("kill:rank=2,call=100"), for tests.
  std::vector<Fault> faults;
  /// TUTTI_RECORD: a folder that gets each rank's latest calls, on an error and on SIGUSR1; empty:
  /// none.
  std::string record_folder;
  /// TUTTI_SHARED_MEMORY: 0: ranks of one host talk over TCP like all others; must be the same on
  /// all ranks.
  bool shared_memory = true;
  /// TUTTI_ENCRYPT: 1: TLS on all links; must be the same on all ranks.
  bool encrypt = false;
  /// TUTTI_CONGESTION: TCP congestion control of data links ("cubic"); empty: the system's, but
  /// no bbr.
  std::string congestion;

  /// Throws Error{usage} that names the variable and its value.
  static Environment from(const EnvironmentMap& map);

  /// What all ranks must have set alike, by the variable's name.
  [[nodiscard]] std::map<std::string, std::string> agreed_settings() const;
};

/// "auto", "cpu" (also "gloo" and "tcp"), "nccl". Empty where it is none of them.
[[nodiscard]] std::optional<BackendChoice> parse_backend(std::string_view text);

/// "60s", "500ms", "5us", "2m", "1.5" (seconds). Empty where it is no duration, negative, or over a
/// year.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

/// "40000-40015", or "40000" for one port. Empty where it is no range of ports from 1 to 65535.
[[nodiscard]] std::optional<PortRange> parse_port_range(std::string_view text);

/// "4096", "4KiB", "1.5MiB", "2GiB" in bytes. Empty where it is no size or does not fit.
[[nodiscard]] std::optional<std::size_t> parse_size(std::string_view text);

}  // namespace tutti
