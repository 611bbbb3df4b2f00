#include "base/control_groups.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text_file.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// A mounted hierarchy of control groups, or a subtree of one.
struct Mount {
  std::string group;  ///< group at its root
  fs::path folder;
  bool is_version_2 = false;
  std::string options;  ///< version 1: the controllers
};

/// Zero if `text` doesn't begin with a number.
std::int64_t number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto word = take_word(text);
  const auto result = std::from_chars(word.data(), word.data() + word.size(), number);
  return result.ec == std::errc() ? number : 0;
}

bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

/// In mountinfo a blank is "\040".
std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(i + 1) && is_octal(i + 2) &&
        is_octal(i + 3)) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                  (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

/// Lines such as "32 31 0:29 /docker/4f /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu".
std::vector<Mount> find_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  const auto text = read_text_file((root / "proc/self/mountinfo").c_str()).value_or("");
  for (std::string_view lines = text; !lines.empty();) {
    auto before = take_line(lines);
    constexpr std::string_view separator = " - ";
    const auto end = before.find(separator);
    if (end == std::string_view::npos) continue;
    auto behind = before.substr(end + separator.size());
    const auto type = take_word(behind);
    if (type != "cgroup" && type != "cgroup2") continue;
    take_word(behind);  // the source
    const auto options = take_word(behind);
    before = before.substr(0, end);
    for (int skipped = 0; skipped < 3; ++skipped) take_word(before);  // ids and device
    const auto top = take_word(before);
    const auto point = take_word(before);
    mounts.push_back({.group = unescaped(top),
                      .folder = root / fs::path(unescaped(point)).relative_path(),
                      .is_version_2 = type == "cgroup2",
                      .options = std::string(options)});
  }
  return mounts;
}

/// `group` relative to `top`: "/b" for "/a/b" in "/a"; empty if it is not inside.
std::optional<std::string> inside(const std::string& group, const std::string& top) {
  if (top == "/") return group == "/" ? "" : group;
  if (!group.starts_with(top)) return std::nullopt;
  const auto rest = group.substr(top.size());
  return rest.empty() || rest.front() == '/' ? std::optional(rest) : std::nullopt;
}

/// `group` and its ancestors, as far as mounted.
void add_groups(const std::string& group, const std::vector<Mount>& mounts,
                std::vector<ControlGroup>& groups) {
  // Of several mounts, use the one that shows the largest subtree.
  const Mount* best = nullptr;
  for (const auto& mount : mounts) {
    if (!inside(group, mount.group)) continue;
    if (best == nullptr || mount.group.size() < best->group.size()) best = &mount;
  }
  if (best == nullptr) return;
  auto rest = *inside(group, best->group);
  const auto above = best->group == "/" ? std::string() : best->group;
  while (true) {
    const auto name = above + rest;
    groups.push_back({.name = name.empty() ? "/" : name,
                      .folder = best->folder / fs::path(rest).relative_path()});
    const auto slash = rest.rfind('/');
    if (slash == std::string::npos) return;
    rest.resize(slash);
  }
}

std::optional<std::uint32_t> ratio_of(std::int64_t quota_us, std::int64_t period_us) {
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  const auto millicores = static_cast<double>(quota_us) * 1000 / static_cast<double>(period_us);
  return static_cast<std::uint32_t>(
      std::clamp(millicores, 1.0, double{std::numeric_limits<std::uint32_t>::max()}));
}

/// Equal in every container of the host, whatever the group's name there.
std::string identity_of(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return {};
  return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

std::optional<CpuQuota> quota_of(const ControlGroup& group) {
  const auto read = [&](const char* name) { return read_text_file((group.folder / name).c_str()); };
  std::optional<std::uint32_t> millicores;
  std::string setting;
  if (const auto text = read("cpu.max")) {
    std::string_view rest = *text;
    const auto line = take_line(rest);
    millicores = millicores_of(line);
    setting = fmt::format("cpu.max {}", line);
  } else {
    const auto quota = number_in(read("cpu.cfs_quota_us").value_or(""));
    if (quota <= 0) return std::nullopt;
    const auto period = number_in(read("cpu.cfs_period_us").value_or(""));
    millicores = ratio_of(quota, period);
    setting = fmt::format("cpu.cfs_quota_us {}, cpu.cfs_period_us {}", quota, period);
  }
  if (!millicores) return std::nullopt;
  return CpuQuota{.millicores = *millicores,
                  .group = group.name,
                  .identity = identity_of(group.folder),
                  .setting = setting};
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const fs::path& root) {
  const auto mounts = find_mounts(root);
  std::vector<ControlGroup> groups;
  const auto text = read_text_file((root / "proc/self/cgroup").c_str()).value_or("");
  // "1:cpu,cpuacct:/a/b" for a hierarchy of version 1, "0::/a/b" for that of version 2
  for (std::string_view lines = text; !lines.empty();) {
    const auto line = take_line(lines);
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const auto group = line.substr(second + 1);
    if (group.starts_with("/..")) continue;  // outside the cgroup namespace
    const bool is_version_2 = controllers.empty();
    if (!is_version_2 && !lists(controllers, controller)) continue;
    auto those = mounts;
    std::erase_if(those, [&](const Mount& mount) {
      return mount.is_version_2 != is_version_2 ||
             (!is_version_2 && !lists(mount.options, controller));
    });
    add_groups(std::string(group), those, groups);
  }
  return groups;
}

std::optional<std::uint32_t> millicores_of(std::string_view cpu_max) {
  const auto quota = number_in(take_word(cpu_max));
  return ratio_of(quota, number_in(cpu_max));
}

std::vector<CpuQuota> find_cpu_quotas(const fs::path& root) {
  std::vector<CpuQuota> quotas;
  for (const auto& group : control_groups("cpu", root)) {
    if (auto quota = quota_of(group)) quotas.push_back(std::move(*quota));
  }
  return quotas;
}

bool is_under(const std::vector<CpuQuota>& quotas, const CpuQuota& quota) {
  return std::any_of(quotas.begin(), quotas.end(),
                     [&](const auto& other) { return other.identity == quota.identity; });
}

std::string cores_text(std::uint32_t millicores) {
  return fmt::format("{:g} {}", millicores / 1000.0, millicores == 1000 ? "core" : "cores");
}

}  // namespace tutti
