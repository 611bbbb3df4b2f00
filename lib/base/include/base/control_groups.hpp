#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// A control group (cgroup) of this process.
struct ControlGroup {
  std::string name;              ///< as in /proc/self/cgroup: "/a/b"
  std::filesystem::path folder;  ///< folder of its settings
};

/// This process's control groups of version 1 with `controller` ("cpu", "pids"), and those of
/// version 2, innermost first, up to the outermost that is mounted. `root` stands for "/":
/// proc/self/cgroup, proc/self/mountinfo and the mounts are looked up below it.
[[nodiscard]] std::vector<ControlGroup> control_groups(std::string_view controller,
                                                       const std::filesystem::path& root = "/");

/// A control group's limit on the processor time of all its processes together.
struct CpuQuota {
  std::uint32_t millicores = 0;  ///< thousandths of a core, at least 1
  std::string group;             ///< its name, as seen by this process
  std::string identity;          ///< equal for all processes of the host in the group
  std::string setting;           ///< "cpu.max 50000 100000"
};

/// Parses cpu.max (version 2), "50000 100000", to thousandths of a core. Empty for no quota ("max
/// 100000") or malformed text.
[[nodiscard]] std::optional<std::uint32_t> millicores_of(std::string_view cpu_max);

/// The quotas of all groups of this process, innermost first.
[[nodiscard]] std::vector<CpuQuota> find_cpu_quotas(const std::filesystem::path& root = "/");

/// True if a process with these `quotas` is in the group of `quota`, on the same host.
[[nodiscard]] bool is_under(const std::vector<CpuQuota>& quotas, const CpuQuota& quota);

/// "0.5 cores", "1 core".
[[nodiscard]] std::string cores_text(std::uint32_t millicores);

}  // namespace tutti
