#include "base/environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "tutti/error.hpp"

namespace tutti {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// Parses a decimal number with a unit of `units`; the default is the first unit.
std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (result.ec != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view unit(result.ptr, static_cast<std::size_t>(end - result.ptr));
  if (unit.empty()) return number * units.front().factor;
  for (const auto& known : units) {
    if (known.name == unit) return number * known.factor;
  }
  return std::nullopt;
}

Error bad_value(std::string_view variable, std::string_view value, std::string_view remedy) {
  return {ErrorCode::usage, fmt::format("{}={} is unusable: {}", variable, value, remedy)};
}

}  // namespace

EnvironmentMap current_environment() {
  EnvironmentMap map;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos && text.substr(0, equals) != "TUTTI_SECRET")
      map.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return map;
}

std::optional<BackendChoice> parse_backend(std::string_view text) {
  if (text == "auto") return BackendChoice::automatic;
  // cpu, and what other libraries and earlier versions call it.
  constexpr std::array names{"cpu", "host", "gloo", "tcp"};
  if (std::find(names.begin(), names.end(), text) != names.end()) return BackendChoice::host;
  if (text == "nccl") return BackendChoice::nccl;
  return std::nullopt;
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::array<Unit, 6> units{
      {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"m", 60.0}, {"h", 3600.0}}};
  constexpr double year = 366.0 * 24 * 3600;
  const auto seconds = parse_quantity(text, units);
  if (!seconds || *seconds > year) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(*seconds * 1e9));
}

std::optional<std::size_t> parse_size(std::string_view text) {
  constexpr std::array<Unit, 7> units{{{"B", 1.0},
                                       {"KiB", 1024.0},
                                       {"MiB", 1048576.0},
                                       {"GiB", 1073741824.0},
                                       {"K", 1024.0},
                                       {"M", 1048576.0},
                                       {"G", 1073741824.0}}};
  constexpr double max_value = 9007199254740992.0;  // 2^53: doubles are exact integers up to here
  const auto bytes = parse_quantity(text, units);
  if (!bytes || *bytes > max_value) return std::nullopt;
  return static_cast<std::size_t>(std::ceil(*bytes));
}

std::string PortRange::text() const {
  return fmt::format("{}-{}", first, last);
}

std::optional<PortRange> parse_port_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto parse = [](std::string_view part) -> std::uint16_t {
    std::uint16_t port = 0;
    const auto* const end = part.data() + part.size();
    const auto result = std::from_chars(part.data(), end, port);
    return result.ec == std::errc() && result.ptr == end ? port : std::uint16_t{0};
  };
  PortRange range{.first = parse(text.substr(0, dash)), .last = 0};
  range.last = dash == std::string_view::npos ? range.first : parse(text.substr(dash + 1));
  if (range.first == 0 || range.last < range.first) return std::nullopt;
  return range;
}

namespace {

constexpr std::array<std::string_view, 3> device_paths{"auto", "nccl", "direct"};

/// In the user's cache folder, by the XDG base directory specification, which has relative paths
/// ignored.
std::string default_tuning_file(const EnvironmentMap& map) {
  for (const auto& [variable, below] : {std::pair{"XDG_CACHE_HOME", "/tutti/tuning.jsonl"},
                                        std::pair{"HOME", "/.cache/tutti/tuning.jsonl"}}) {
    const auto found = map.find(variable);
    if (found != map.end() && found->second.starts_with('/')) return found->second + below;
  }
  return {};
}

}  // namespace

Environment Environment::from(const EnvironmentMap& map) {
  Environment result;
  const auto value_of = [&](std::string_view variable) -> const std::string* {
    const auto found = map.find(variable);
    return found == map.end() || found->second.empty() ? nullptr : &found->second;
  };

  if (const auto* value = value_of("TUTTI_TIMEOUT")) {
    const auto timeout = parse_duration(*value);
    if (!timeout || timeout->count() == 0) {
      throw bad_value("TUTTI_TIMEOUT", *value, "give a time above 0, such as 60s or 500ms");
    }
    result.timeout = *timeout;
  }
  if (const auto* value = value_of("TUTTI_LOG")) {
    constexpr std::array<std::string_view, 4> names{"quiet", "warning", "info", "debug"};
    std::size_t level = 0;
    while (level < names.size() && names[level] != *value) ++level;
    if (level == names.size()) {
      throw bad_value("TUTTI_LOG", *value, "give quiet, warning, info or debug");
    }
    result.log_level = static_cast<LogLevel>(level);
  }
  if (const auto* value = value_of("TUTTI_BACKEND")) {
    const auto backend = parse_backend(*value);
    if (!backend) throw bad_value("TUTTI_BACKEND", *value, "give auto, host or nccl");
    result.backend = *backend;
  }
  if (const auto* value = value_of("TUTTI_DEVICE_PATH")) {
    const auto* const found = std::find(device_paths.begin(), device_paths.end(), *value);
    if (found == device_paths.end()) {
      throw bad_value("TUTTI_DEVICE_PATH", *value, "give auto, nccl or direct");
    }
    result.device_path = static_cast<DevicePathChoice>(found - device_paths.begin());
  }
  result.tuning_file = default_tuning_file(map);
  for (const auto* variable : {"TUTTI_TUNING", "TUTTI_PROFILE"}) {
    if (const auto* value = value_of(variable)) {
      result.tuning_file = *value == "off" ? std::string() : *value;
      break;
    }
  }
  if (const auto* value = value_of("TUTTI_HOST_ID")) {
    if (value->size() > 255) {
      throw Error(ErrorCode::usage,
                  fmt::format("TUTTI_HOST_ID has {} characters: set at most 255", value->size()));
    }
    result.host_id = *value;
  }
  for (const auto* variable : {"TUTTI_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    if (const auto* value = value_of(variable)) {
      result.socket_ifname = *value;
      result.socket_ifname_source = variable;
      break;
    }
  }
  if (const auto* value = value_of("TUTTI_SOCKET_FAMILY")) {
    if (*value != "4" && *value != "6" && *value != "any") {
      throw bad_value("TUTTI_SOCKET_FAMILY", *value, "give 4, 6 or any");
    }
    if (*value != "any") {
      result.socket_family = *value == "4" ? SocketFamily::v4 : SocketFamily::v6;
    }
  }
  if (const auto* value = value_of("TUTTI_PORT_RANGE")) {
    const auto range = parse_port_range(*value);
    if (!range) {
      throw bad_value("TUTTI_PORT_RANGE", *value,
                      "give the first and the last port, such as 40000-40015");
    }
    result.port_range = *range;
  }
  if (const auto* value = value_of("TUTTI_KEEPALIVE")) {
    const auto keepalive = parse_duration(*value);
    if (!keepalive || *keepalive < std::chrono::seconds(1) || *keepalive > std::chrono::hours(24)) {
      throw bad_value("TUTTI_KEEPALIVE", *value, "give a time from 1s to 24h");
    }
    result.keepalive = std::chrono::duration_cast<std::chrono::seconds>(*keepalive);
  }
  if (const auto* value = value_of("TUTTI_ALGORITHM")) result.algorithm = *value;
  if (const auto* value = value_of("TUTTI_CHUNK")) {
    const auto bytes = parse_size(*value);
    if (!bytes || *bytes < 64 || *bytes > (std::size_t{1} << 30)) {
      throw bad_value("TUTTI_CHUNK", *value, "give a size from 64 to 1GiB, such as 256KiB");
    }
    result.chunk_bytes = *bytes;
  }
  if (const auto* value = value_of("TUTTI_MODEL")) result.model_file = *value;
  if (const auto* value = value_of("TUTTI_EAGER")) {
    const auto bytes = parse_size(*value);
    if (!bytes || *bytes > (std::size_t{1} << 20)) {
      throw bad_value("TUTTI_EAGER", *value, "give a size from 0 to 1MiB, such as 16KiB");
    }
    result.eager_bytes = result.far_eager_bytes = *bytes;
  }
  if (const auto* value = value_of("TUTTI_DETERMINISTIC")) {
    if (*value != "0" && *value != "1")
      throw bad_value("TUTTI_DETERMINISTIC", *value, "give 0 or 1");
    result.deterministic = *value == "1";
  }
  if (const auto* value = value_of("TUTTI_SECRET_FILE")) result.secret_file = *value;
  if (const auto* value = value_of("TUTTI_FAULT")) result.faults = parse_faults(*value);
  if (const auto* value = value_of("TUTTI_RECORD")) result.record_folder = *value;
  if (const auto* value = value_of("TUTTI_SHARED_MEMORY")) {
    if (*value != "0" && *value != "1")
      throw bad_value("TUTTI_SHARED_MEMORY", *value, "give 0 or 1");
    result.shared_memory = *value == "1";
  }
  if (const auto* value = value_of("TUTTI_SINGLE_COPY")) {
    if (*value != "auto" && *value != "always" && *value != "off")
      throw bad_value("TUTTI_SINGLE_COPY", *value, "give auto, always or off");
    if (*value != "auto") {
      result.single_copy = *value == "always" ? SingleCopyUse::always : SingleCopyUse::off;
    }
  }
  if (const auto* value = value_of("TUTTI_ENCRYPT")) {
    if (*value != "0" && *value != "1") throw bad_value("TUTTI_ENCRYPT", *value, "give 0 or 1");
    result.encrypt = *value == "1";
  }
  if (const auto* value = value_of("TUTTI_CONGESTION")) result.congestion = *value;
  return result;
}

std::map<std::string, std::string> Environment::agreed_settings() const {
  constexpr std::array<const char*, 3> backends{"auto", "cpu", "nccl"};
  return {
      {"TUTTI_ALGORITHM", algorithm},
      {"TUTTI_BACKEND", backends.at(static_cast<std::size_t>(backend))},
      {"TUTTI_CHUNK", chunk_bytes == 0 ? std::string() : std::to_string(chunk_bytes)},
      {"TUTTI_DEVICE_PATH", std::string(device_paths.at(static_cast<std::size_t>(device_path)))},
      {"TUTTI_DETERMINISTIC", deterministic ? "1" : "0"},
      {"TUTTI_EAGER", eager_bytes == far_eager_bytes
                          ? std::to_string(eager_bytes)
                          : fmt::format("{}, {} between hosts", eager_bytes, far_eager_bytes)},
      {"TUTTI_ENCRYPT", encrypt ? "1" : "0"},
      {"TUTTI_MODEL", model},
      {"TUTTI_SHARED_MEMORY", shared_memory ? "1" : "0"}};
}

}  // namespace tutti
