#pragma once

#include <set>
#include <vector>

#include "loops.hpp"

namespace tutti::test {

struct LossReport {
  Clock::duration worst{};
  Clock::duration worst_destruction{};
  std::vector<int> failed_ranks;
};

/// Checks that all ranks except `dead` report the same loss of dead ranks within the limit, and
/// that exactly one of them speaks for the job.
LossReport check_survivors(const std::vector<Report>& reports, const std::set<int>& dead,
                           Clock::time_point since);

void print(const char* what, const LossReport& worst);
void keep_worst(LossReport& worst, const LossReport& loss);

}  // namespace tutti::test
