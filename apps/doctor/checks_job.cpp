#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "device/agreement.hpp"
#include "device/nccl_numbers.hpp"
#include "doctor/advice.hpp"
#include "doctor/checks.hpp"

namespace tutti::app::doctor {
namespace {

/// Whether the variable may differ between hosts, as docs/environment.md states.
bool may_differ(const std::string& variable) {
  constexpr std::array<std::string_view, 8> local{
      "TUTTI_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TUTTI_HOST_ID",
      "TUTTI_LOG",           "TUTTI_CONGESTION",   "TUTTI_SECRET_FILE",  "NCCL_IB_HCA"};
  return std::find(local.begin(), local.end(), variable) != local.end();
}

/// The lowest rank of each distinct value.
template <class Value>
std::map<Value, std::size_t> by_value(const JobFacts& job, const std::vector<Value>& values) {
  std::map<Value, std::size_t> result;
  for (std::size_t rank = 0; rank < job.facts.size(); ++rank) {
    result.emplace(values[rank], rank);
  }
  return result;
}

/// Adds a finding if `read` gives different values for different ranks.
template <class Read>
void compare(const JobFacts& job, Findings& findings, Severity severity, const char* check,
             const char* what, const Read& read, const std::string& remedy) {
  std::vector<std::string> values;
  values.reserve(job.facts.size());
  for (const auto& facts : job.facts) values.push_back(read(facts));
  const auto different = by_value(job, values);
  if (different.size() < 2) return;
  std::vector<std::string> parts;
  parts.reserve(different.size());
  for (const auto& [value, rank] : different) {
    parts.push_back(fmt::format("{} on {}", value.empty() ? "none" : value, job.rank(rank)));
  }
  findings.push_back(
      {severity, check, fmt::format("{} differs: {}", what, list_some(parts)), remedy});
}

}  // namespace

void check_settings(const JobFacts& job, Findings& findings) {
  std::set<std::string> variables;
  std::set<std::string> must_agree;
  for (const auto& facts : job.facts) {
    for (const auto& [variable, value] : facts.settings) variables.insert(variable);
    for (const auto& [variable, value] : facts.info.settings) must_agree.insert(variable);
  }
  for (const auto& variable : variables) {
    std::vector<std::string> values;
    std::size_t set = 0;
    for (const auto& facts : job.facts) {
      const auto found = facts.settings.find(variable);
      set += found != facts.settings.end() ? 1 : 0;
      values.push_back(found == facts.settings.end() ? "" : found->second);
    }
    const auto different = by_value(job, values);
    if (different.size() < 2) continue;
    const bool missing = set < job.facts.size();
    if (!missing && may_differ(variable)) continue;
    if (variable == "TUTTI_HOST_ID") continue;
    // A rank without the variable may have the same value by default.
    bool disagree = false;
    for (const auto& facts : job.facts) {
      const auto mine = facts.info.settings.find(variable);
      const auto first = job.facts[0].info.settings.find(variable);
      if (mine == facts.info.settings.end() || first == job.facts[0].info.settings.end()) continue;
      disagree |= mine->second != first->second;
    }
    const auto with = std::find_if(values.begin(), values.end(),
                                   [](const auto& value) { return !value.empty(); });
    const auto other = std::find_if(values.begin(), values.end(),
                                    [&](const auto& value) { return value != *with; });
    const auto one = static_cast<std::size_t>(with - values.begin());
    const auto two = static_cast<std::size_t>(other - values.begin());
    findings.push_back(
        {disagree ? Severity::stops
         : variable.starts_with("NCCL_") || variable == "TUTTI_TIMEOUT" ||
                 variable == "TUTTI_PORT_RANGE"
             ? Severity::slows
             : Severity::note,
         "settings",
         other->empty() ? fmt::format("{} is {} on {} and not set on {}{}", variable, *with,
                                      job.rank(one), job.rank(two), why_not_passed(job.launcher()))
                        : fmt::format("{} is {} on {} and {} on {}", variable, *with, job.rank(one),
                                      *other, job.rank(two)),
         "set the same value on all ranks: " + pass_variable(job.launcher(), variable)});
  }
}

void check_versions(const JobFacts& job, Findings& findings) {
  compare(
      job, findings, Severity::stops, "version", "the version of tutti",
      [](const Facts& facts) { return facts.info.version; },
      "install the same version on all hosts");
  compare(
      job, findings, Severity::note, "driver", "the CUDA version of the driver",
      [](const Facts& facts) { return facts.driver_version; },
      "install the same driver on all hosts; mixed versions are a common cause of failures");
  const bool some_devices = std::any_of(job.facts.begin(), job.facts.end(), [](const Facts& facts) {
    return !facts.info.devices.empty();
  });
  if (!some_devices) return;
  compare(
      job, findings, Severity::slows, "nccl", "the version of NCCL",
      [](const Facts& facts) {
        const auto version = static_cast<int>(facts.info.nccl_version);
        return version == 0 ? std::string() : device::nccl_version_text(version);
      },
      "install the same NCCL on all hosts, or set LD_LIBRARY_PATH: " +
          pass_variable(job.launcher(), "LD_LIBRARY_PATH"));
}

namespace {

/// Checks the facts of each host's lowest rank.
void check_peer_access(const JobFacts& job, Findings& findings) {
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    std::vector<std::string> pairs;
    for (const auto& [one, other] : job.of_host(host).without_peer_access) {
      pairs.push_back(fmt::format("{} and {}", one, other));
    }
    if (pairs.empty()) continue;
    findings.push_back({Severity::slows, "peer access",
                        fmt::format("devices of {} have no peer-to-peer access ({}): NCCL copies "
                                    "through host memory between them",
                                    job.host_name(host), list_some(pairs)),
                        "check nvidia-smi topo -p2p r; on bare metal disable PCI access control "
                        "(ACS), in a virtual machine or container request devices of one group"});
  }
}

}  // namespace

void check_devices(const JobFacts& job, Findings& findings) {
  const auto with = std::count_if(job.facts.begin(), job.facts.end(),
                                  [](const Facts& facts) { return !facts.info.devices.empty(); });
  if (with == 0) return;
  std::vector<rendezvous::PeerInfo> infos;
  for (const auto& facts : job.facts) {
    auto info = facts.info;
    // Other checks report these differences; agree() would stop at them.
    info.settings.clear();
    info.version = job.facts[0].info.version;
    info.nccl_version = job.facts[0].info.nccl_version;
    infos.push_back(std::move(info));
  }
  const rendezvous::Peers peers(0, std::move(infos), {});
  const auto agreement = device::agree(peers);
  if (agreement.mode != device::DeviceMode::nccl) {
    findings.push_back({Severity::slows, "devices",
                        fmt::format("NCCL can't serve this job: {}", agreement.reason),
                        agreement.mode == device::DeviceMode::host
                            ? "make a device visible to every rank (CUDA_VISIBLE_DEVICES, the "
                              "container's --gpus), or use --backend cpu"
                            : "give every rank a whole device of its own: fewer ranks on the host, "
                              "or another CUDA_VISIBLE_DEVICES"});
  }
  check_peer_access(job, findings);
  for (std::size_t rank = 0; rank < job.facts.size(); ++rank) {
    const auto& facts = job.facts[rank];
    const auto count = facts.info.devices.size();
    if (count == 0) continue;
    const auto mine =
        count == 1 ? std::size_t{0} : static_cast<std::size_t>(job.places[rank].local_rank) % count;
    if (mine >= facts.device_is_far.size() || !facts.device_is_far[mine]) continue;
    findings.push_back({Severity::slows, "locality",
                        fmt::format("{} runs on cores of another NUMA node than its device {} ({})",
                                    job.rank(rank), mine, facts.info.devices[mine].bus_id),
                        unbind(job.launcher(), "--map-by numa")});
  }
}

}  // namespace tutti::app::doctor
