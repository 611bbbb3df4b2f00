#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// A control group (cgroup) that this process is in.
struct ControlGroup {
  std::string name;              ///< as /proc/self/cgroup spells it: "/a/b"
  std::filesystem::path folder;  ///< where its settings are
};

/// The control groups of version 1 that `controller` ("cpu", "pids") acts on, and those of version
/// 2, each group before the one around it, up to the outermost that is mounted here. `root` stands
/// for "/": there are proc/self/cgroup, proc/self/mountinfo, and what that says is mounted.
[[nodiscard]] std::vector<ControlGroup> control_groups(std::string_view controller,
                                                       const std::filesystem::path& root = "/");

/// A control group's bound on the processor time of all its processes together.
struct CpuQuota {
  std::uint32_t millicores = 0;  ///< thousandths of a core, at least 1
  std::string group;             ///< its name, as this process sees it
  std::string identity;          ///< the same for all processes of a host that are in the group
  std::string setting;           ///< "cpu.max 50000 100000"
};

/// Of cpu.max (version 2), "50000 100000": thousandths of a core. Empty where there is no quota
/// ("max 100000"), or where the text is none.
[[nodiscard]] std::optional<std::uint32_t> millicores_of(std::string_view cpu_max);

/// The quotas of all groups that this process is in, from the innermost outwards.
[[nodiscard]] std::vector<CpuQuota> find_cpu_quotas(const std::filesystem::path& root = "/");

/// Whether a process with these `quotas` is in the group that `quota` is of, on the same host.
[[nodiscard]] bool is_under(const std::vector<CpuQuota>& quotas, const CpuQuota& quota);

/// "0.5 cores", "1 core"
[[nodiscard]] std::string cores_text(std::uint32_t millicores);

}  // namespace tutti
