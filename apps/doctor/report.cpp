#include "doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "text.hpp"

namespace tutti::app::doctor {
namespace {

constexpr std::array<const char*, 3> severity_names{"stops", "slows", "note"};
constexpr std::size_t max_hosts_listed = 16;

const char* name_of(Severity severity) {
  return severity_names.at(static_cast<std::size_t>(severity));
}

std::string link_text(const LinkFact& link) {
  return fmt::format("{} {}{}, MTU {}", link.name, link.address,
                     link.speed_mbit > 0 ? fmt::format(", {} Mbit/s", link.speed_mbit) : "",
                     link.mtu);
}

std::string table(const JobFacts& job, const char* title,
                  const std::vector<std::vector<double>>& cells) {
  auto text = fmt::format("{}\n{:<16}", title, "from \\ to");
  const auto hosts = std::min(job.hosts(), max_hosts_listed);
  for (std::size_t to = 0; to < hosts; ++to) text += fmt::format("{:>12}", job.host_name(to));
  for (std::size_t from = 0; from < hosts; ++from) {
    text += fmt::format("\n{:<16}", job.host_name(from));
    for (std::size_t to = 0; to < hosts; ++to) {
      const auto value = cells[from][to];
      text += value < 0 ? fmt::format("{:>12}", "-") : fmt::format("{:>12.1f}", value);
    }
  }
  return text + "\n";
}

}  // namespace

std::string as_text(const JobFacts& job, const Findings& findings, const Matrix& matrix) {
  std::string text;
  for (const auto& finding : findings) {
    text += fmt::format("{}: {}\n       remedy: {}\n", name_of(finding.severity), finding.sentence,
                        finding.remedy);
  }
  for (std::size_t host = 0; host < job.hosts() && host < max_hosts_listed; ++host) {
    const auto& links = job.of_host(host).links;
    const auto used =
        std::find_if(links.begin(), links.end(), [](const LinkFact& link) { return link.chosen; });
    const auto way = job.hosts() == 1      ? std::string("loopback")
                     : used == links.end() ? std::string("no network")
                                           : link_text(*used);
    text += fmt::format("{}: {}, {}\n", job.host_name(host),
                        count_text(static_cast<long>(job.ranks_of[host].size()), "rank"), way);
  }
  if (!matrix.empty()) {
    text += table(job, "latency in us, half a round trip of 4 bytes", matrix.latency_us);
    text += table(job, "bandwidth in Gbit/s, one stream", matrix.bandwidth_gbit);
  }
  std::array<std::size_t, 3> counts{};
  for (const auto& finding : findings) ++counts.at(static_cast<std::size_t>(finding.severity));
  const auto job_text =
      fmt::format("{} on {}", count_text(static_cast<long>(job.facts.size()), "rank"),
                  count_text(static_cast<long>(job.hosts()), "host"));
  if (findings.empty()) return text + fmt::format("{}: no findings, fit to run\n", job_text);
  return text +
         fmt::format("{}: {} (findings: {} stop the job, {} slow it down, {} for information)\n",
                     job_text, counts[0] > 0 ? "can't run" : "fit to run", counts[0], counts[1],
                     counts[2]);
}

std::string json_text(const JobFacts& job, const Findings& findings, const Matrix& matrix) {
  auto found = nlohmann::json::array();
  for (const auto& finding : findings) {
    found.push_back({{"severity", name_of(finding.severity)},
                     {"check", finding.check},
                     {"sentence", finding.sentence},
                     {"remedy", finding.remedy}});
  }
  auto hosts = nlohmann::json::array();
  for (std::size_t host = 0; host < job.hosts(); ++host) {
    auto links = nlohmann::json::array();
    for (const auto& link : job.of_host(host).links) {
      links.push_back({{"name", link.name},
                       {"address", link.address},
                       {"speed_mbit", link.speed_mbit},
                       {"mtu", link.mtu},
                       {"chosen", link.chosen}});
    }
    hosts.push_back(
        {{"name", job.host_name(host)}, {"ranks", job.ranks_of[host]}, {"interfaces", links}});
  }
  nlohmann::json result{{"schema", 1},
                        {"ranks", job.facts.size()},
                        {"fit", exit_status(findings) == 0},
                        {"findings", found},
                        {"hosts", hosts}};
  if (!matrix.empty()) {
    result["latency_us"] = matrix.latency_us;
    result["bandwidth_gbit"] = matrix.bandwidth_gbit;
  }
  return result.dump(1) + "\n";
}

int exit_status(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::stops; })
             ? 3
             : 0;
}

}  // namespace tutti::app::doctor
