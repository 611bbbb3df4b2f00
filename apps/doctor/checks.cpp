#include "doctor/checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launch/place.hpp"

namespace tutti::app::doctor {

JobFacts::JobFacts(std::vector<Facts> all) : facts(std::move(all)) {
  std::vector<std::string> identities;
  identities.reserve(facts.size());
  for (const auto& it : facts) identities.push_back(it.info.host.identity);
  places = launch::find_places(identities);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto host = static_cast<std::size_t>(places[rank].host_index);
    if (host == leaders.size()) {
      leaders.push_back(rank);
      ranks_of.emplace_back();
    }
    ranks_of[host].push_back(rank);
  }
}

std::string JobFacts::rank(std::size_t rank) const {
  return fmt::format("rank {} ({})", rank, facts[rank].info.host.name);
}

std::string list_some(const std::vector<std::string>& names, std::size_t max) {
  if (names.size() <= max) return fmt::format("{}", fmt::join(names, ", "));
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<long>(max));
  return fmt::format("{} and {} more", fmt::join(first, ", "), names.size() - max);
}

Findings examine(const JobFacts& job) {
  Findings findings;
  check_versions(job, findings);
  // No further check is possible: the facts of another version can't be decoded.
  if (!findings.empty() && findings[0].severity == Severity::stops) return findings;
  for (const auto check :
       {check_settings, check_reach, check_networks, check_names, check_port, check_limits,
        check_memory, check_cores, check_quotas, check_devices, check_clocks}) {
    check(job, findings);
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& one, const Finding& other) {
    return one.severity < other.severity;
  });
  return findings;
}

}  // namespace tutti::app::doctor
