#pragma once

#include <string>
#include <vector>

#include "doctor/facts.hpp"
#include "rendezvous/peers.hpp"

/// Derives findings from facts. Pure functions with the same result on every rank.
namespace tutti::app::doctor {

enum class Severity : std::uint8_t {
  stops,  ///< the job can't run
  slows,  ///< the job runs, but slower than possible
  note,   ///< for information
};

struct Finding {
  Severity severity;
  std::string check;     ///< "reachability"
  std::string sentence;  ///< what is wrong, on which rank or host
  std::string remedy;    ///< how to fix it
};

/// The facts of all ranks, and which ranks share a host.
struct JobFacts {
  explicit JobFacts(std::vector<Facts> all);

  std::vector<Facts> facts;
  std::vector<launch::Place> places;
  std::vector<std::size_t> leaders;                ///< the lowest rank of each host
  std::vector<std::vector<std::size_t>> ranks_of;  ///< by host

  [[nodiscard]] const Facts& of_host(std::size_t host) const { return facts[leaders[host]]; }
  [[nodiscard]] const std::string& host_name(std::size_t host) const {
    return of_host(host).info.host.name;
  }
  [[nodiscard]] std::size_t hosts() const { return leaders.size(); }
  /// The job's launcher. Remedies use its options.
  [[nodiscard]] const std::string& launcher() const { return facts[0].launcher; }
  /// "rank 2 (node1)"
  [[nodiscard]] std::string rank(std::size_t rank) const;
};

using Findings = std::vector<Finding>;

void check_reach(const JobFacts& job, Findings& findings);
void check_networks(const JobFacts& job, Findings& findings);
void check_names(const JobFacts& job, Findings& findings);
void check_port(const JobFacts& job, Findings& findings);
void check_limits(const JobFacts& job, Findings& findings);
void check_memory(const JobFacts& job, Findings& findings);
void check_cores(const JobFacts& job, Findings& findings);
void check_quotas(const JobFacts& job, Findings& findings);
void check_settings(const JobFacts& job, Findings& findings);
void check_versions(const JobFacts& job, Findings& findings);
void check_devices(const JobFacts& job, Findings& findings);
void check_clocks(const JobFacts& job, Findings& findings);

/// Runs all checks. Sorts the findings, the most severe first.
[[nodiscard]] Findings examine(const JobFacts& job);

/// "a, b, c and 4 more"
[[nodiscard]] std::string list_some(const std::vector<std::string>& names, std::size_t max = 4);

}  // namespace tutti::app::doctor
