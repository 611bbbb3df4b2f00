#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "control/topology.hpp"
#include "doctor/advice.hpp"
#include "doctor/checks.hpp"
#include "text.hpp"

namespace tutti::app::doctor {
namespace {

constexpr std::int64_t own_descriptors = 8;
constexpr std::uint64_t enough_locked = std::uint64_t{64} << 20;
constexpr std::int64_t min_shared = std::int64_t{8} << 20;  // per rank

/// "0-3,8"
std::string list_cpus(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    auto end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (end > i) text += fmt::format("-{}", cpus[end]);
    i = end;
  }
  return text;
}

bool has_devices(const JobFacts& job, std::size_t host) {
  return std::any_of(job.ranks_of[host].begin(), job.ranks_of[host].end(),
                     [&](std::size_t rank) { return !job.facts[rank].info.devices.empty(); });
}

std::vector<std::string> rank_numbers(const std::vector<std::size_t>& ranks) {
  std::vector<std::string> numbers;
  numbers.reserve(ranks.size());
  for (const auto rank : ranks) numbers.push_back(std::to_string(rank));
  return numbers;
}

struct SharedQuota {
  CpuQuota quota;
  std::vector<std::size_t> ranks;  ///< none if there is no quota
};

/// The quota with the smallest share per rank among the quotas of a host's ranks.
SharedQuota tightest_quota(const JobFacts& job, std::size_t host) {
  SharedQuota tightest;
  for (const auto rank : job.ranks_of[host]) {
    for (const auto& quota : job.facts[rank].info.cpu_quotas) {
      std::vector<std::size_t> ranks;
      std::copy_if(
          job.ranks_of[host].begin(), job.ranks_of[host].end(), std::back_inserter(ranks),
          [&](std::size_t other) { return is_under(job.facts[other].info.cpu_quotas, quota); });
      if (tightest.ranks.empty() ||
          quota.millicores * tightest.ranks.size() < tightest.quota.millicores * ranks.size()) {
        tightest = {quota, std::move(ranks)};
      }
    }
  }
  return tightest;
}

}  // namespace

void check_limits(const JobFacts& job, Findings& findings) {
  const auto size = static_cast<int>(job.facts.size());
  for (std::size_t rank = 0; rank < job.facts.size(); ++rank) {
    const auto& info = job.facts[rank].info;
    const auto links =
        static_cast<std::int64_t>(control::neighbours(static_cast<int>(rank), size).size());
    const auto min_needed = own_descriptors + 3 * links;
    const auto max_needed = own_descriptors + links + std::int64_t{2} * (size - 1);
    const auto free = static_cast<std::int64_t>(info.open_files_limit) -
                      static_cast<std::int64_t>(info.open_files);
    if (free >= max_needed) continue;
    const auto need = static_cast<std::int64_t>(info.open_files) + max_needed;
    findings.push_back(
        {free < min_needed ? Severity::stops : Severity::note, "descriptors",
         fmt::format("{} may open {} files and has {} open, but {} needs up to {} more",
                     job.rank(rank), info.open_files_limit, info.open_files,
                     free < min_needed ? "the job" : "an all-to-all", max_needed),
         fmt::format("raise the limit there: ulimit -n {} or more", need)});
    break;  // one finding is enough: the other ranks of the host are the same
  }
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    const auto& it = job.of_host(host);
    if (it.locked_memory >= enough_locked || !has_devices(job, host) || it.rdma.empty()) continue;
    findings.push_back({Severity::slows, "locked memory",
                        fmt::format("{} may lock only {} of memory, too little for NCCL over RDMA",
                                    job.host_name(host), size_text(it.locked_memory)),
                        "ulimit -l unlimited there (limits.conf, or LimitMEMLOCK of the service)"});
  }
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    const auto& it = job.of_host(host);
    const auto ranks = static_cast<int>(job.ranks_of[host].size());
    if (it.ports == 0 || it.ports >= ranks) continue;
    findings.push_back(
        {Severity::stops, "ports",
         fmt::format("TUTTI_PORT_RANGE={} has {} for the {} of {}", it.port_range,
                     count_text(it.ports, "port"), count_text(ranks, "rank"), job.host_name(host)),
         "give a range with at least one port for each rank of a host"});
    break;
  }
}

void check_memory(const JobFacts& job, Findings& findings) {
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    const auto& it = job.of_host(host);
    const auto ranks = static_cast<std::int64_t>(job.ranks_of[host].size());
    if (ranks < 2 || it.shared_memory >= min_shared * ranks) continue;
    const bool devices = has_devices(job, host);
    findings.push_back({devices ? Severity::stops : Severity::note, "shared memory",
                        it.shared_memory < 0
                            ? fmt::format("{} has no /dev/shm", job.host_name(host))
                            : fmt::format("{} has {} free in /dev/shm for {}", job.host_name(host),
                                          size_text(static_cast<std::size_t>(it.shared_memory)),
                                          count_text(ranks, "rank")),
                        fmt::format("{} inside the host: start the container with --shm-size=1g, "
                                    "or mount a larger /dev/shm",
                                    devices ? "NCCL needs it"
                                            : "tutti works without it, but MPI and NCCL use it")});
  }
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    for (const auto rank : job.ranks_of[host]) {
      const auto& failure = job.facts[rank].single_copy_failure;
      if (failure.empty()) continue;
      findings.push_back(
          {Severity::note, "single copy",
           fmt::format("{} can't read the memory of other ranks of its host ({}): tutti works "
                       "without single copy, but MPI may use it",
                       job.rank(rank), failure),
           "sysctl kernel.yama.ptrace_scope=0, or start the container with --cap-add SYS_PTRACE"});
      break;
    }
  }
}

void check_cores(const JobFacts& job, Findings& findings) {
  std::vector<std::string> oversubscribed;
  std::vector<std::string> single_core;
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    const auto& ranks = job.ranks_of[host];
    std::set<int> used;
    std::map<std::vector<int>, std::vector<std::size_t>> by_cpus;
    for (const auto rank : ranks) {
      const auto& cpus = job.facts[rank].cpus;
      used.insert(cpus.begin(), cpus.end());
      by_cpus[cpus].push_back(rank);
    }
    const auto& name = job.host_name(host);
    const auto machine = job.of_host(host).machine_cpus;
    bool reported = false;
    for (const auto& [cpus, together] : by_cpus) {
      // More ranks than cores in their affinity mask, although the host has more cores.
      if (cpus.empty() || together.size() <= cpus.size() ||
          static_cast<int>(cpus.size()) >= machine) {
        continue;
      }
      reported = true;
      findings.push_back({Severity::slows, "binding",
                          fmt::format("ranks {} of {} are bound to the same {} ({}) of {}",
                                      list_some(rank_numbers(together)), name,
                                      count_text(static_cast<long>(cpus.size()), "core"),
                                      list_cpus(cpus), machine),
                          unbind(job.launcher(), "--bind-to core with one mpirun for all ranks")});
    }
    if (reported) continue;
    if (!used.empty() && ranks.size() > used.size()) {
      oversubscribed.push_back(fmt::format("{} ({} on {})", name,
                                           count_text(static_cast<long>(ranks.size()), "rank"),
                                           count_text(static_cast<long>(used.size()), "core")));
    } else if (std::any_of(ranks.begin(), ranks.end(), [&](std::size_t rank) {
                 return job.facts[rank].cpus.size() == 1 &&
                        machine > static_cast<int>(ranks.size());
               })) {
      single_core.push_back(name);
    }
  }
  if (!oversubscribed.empty()) {
    findings.push_back(
        {Severity::note, "cores",
         fmt::format("more ranks than cores on {}: results are right, only times are longer",
                     list_some(oversubscribed)),
         "none is needed to try things out; for times that count start fewer ranks there"});
  }
  if (!single_core.empty()) {
    findings.push_back({Severity::note, "binding",
                        fmt::format("ranks of {} are bound to one core each while other cores are "
                                    "free; a rank runs more than one thread",
                                    list_some(single_core)),
                        unbind(job.launcher(), "--map-by slot:PE=2")});
  }
}

void check_quotas(const JobFacts& job, Findings& findings) {
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    const auto [quota, ranks] = tightest_quota(job, host);
    if (quota.millicores >= 1000 * ranks.size()) continue;
    findings.push_back(
        {Severity::slows, "quota",
         fmt::format("control group {} of {} allows {} ({}) to {}: less than a core each",
                     quota.group, job.host_name(host), cores_text(quota.millicores), quota.setting,
                     ranks.size() == 1 ? fmt::format("rank {}", ranks[0])
                                       : "ranks " + list_some(rank_numbers(ranks))),
         "allow one core per rank (docker --cpus, limits.cpu of Kubernetes, CPUQuota of systemd), "
         "or start fewer ranks there"});
  }
}

void check_clocks(const JobFacts& job, Findings& findings) {
  constexpr double max_seconds = 1;
  std::size_t first = 0;
  std::size_t last = 0;
  for (std::size_t host = 1; host < job.hosts(); ++host) {
    if (job.of_host(host).clock_ns < job.of_host(first).clock_ns) first = host;
    if (job.of_host(host).clock_ns > job.of_host(last).clock_ns) last = host;
  }
  const auto apart =
      static_cast<double>(job.of_host(last).clock_ns - job.of_host(first).clock_ns) / 1e9;
  if (apart <= max_seconds) return;
  findings.push_back(
      {Severity::note, "clock",
       fmt::format("the clock of {} is {:.1f} s ahead of that of {}: log lines of "
                   "different hosts can't be ordered, and Kerberos tickets may be rejected",
                   job.host_name(last), apart, job.host_name(first)),
       "start chrony or another time service on all hosts"});
}

}  // namespace tutti::app::doctor
