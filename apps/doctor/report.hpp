#pragma once

#include <string>
#include <vector>

#include "doctor/checks.hpp"

namespace tutti::app::doctor {

/// Between hosts, by their index; below 0 where nothing was measured.
struct Matrix {
  std::vector<std::vector<double>> latency_us;      ///< half a round trip of 4 bytes
  std::vector<std::vector<double>> bandwidth_gbit;  ///< one way
  [[nodiscard]] bool empty() const { return latency_us.empty(); }
};

/// For people: one finding with its remedy after the other, then which networks are used.
[[nodiscard]] std::string as_text(const JobFacts& job, const Findings& findings,
                                  const Matrix& matrix);
[[nodiscard]] std::string json_text(const JobFacts& job, const Findings& findings,
                                    const Matrix& matrix);

/// 3 where a finding stops the job, else 0.
[[nodiscard]] int exit_status(const Findings& findings);

}  // namespace tutti::app::doctor
