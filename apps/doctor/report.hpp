#pragma once

#include <string>
#include <vector>

#include "doctor/checks.hpp"

namespace tutti::app::doctor {

/// Values between hosts, indexed by host; below 0 if not measured.
struct Matrix {
  std::vector<std::vector<double>> latency_us;      ///< half a round trip of 4 bytes
  std::vector<std::vector<double>> bandwidth_gbit;  ///< one direction
  [[nodiscard]] bool empty() const { return latency_us.empty(); }
};

/// Findings with remedies, then the network of each host.
[[nodiscard]] std::string as_text(const JobFacts& job, const Findings& findings,
                                  const Matrix& matrix);
[[nodiscard]] std::string json_text(const JobFacts& job, const Findings& findings,
                                    const Matrix& matrix);

/// 3 if a finding stops the job, else 0.
[[nodiscard]] int exit_status(const Findings& findings);

}  // namespace tutti::app::doctor
