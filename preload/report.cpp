#include "report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <vector>

namespace tutti::preload {

std::string report_text(const NcclCommunicator& communicator) {
  const auto& who = communicator.who();
  auto result = fmt::format(
      "tutti: NCCL calls of rank {} on a communicator of {} ranks{}\n", who.rank, who.size,
      communicator.has_path() ? std::string()
                              : ", without a direct path: " + communicator.no_path_because());
  result += fmt::format("tutti:   {:<18} {:>10} {:>10}\n", "call", "served", "handed on");
  for (std::size_t kind = 0; kind < call_kinds; ++kind) {
    const auto served = communicator.counts().served.at(kind).load();
    std::uint64_t handed_on = 0;
    std::vector<std::string> reasons;
    for (std::size_t obstacle = 0; obstacle < obstacles; ++obstacle) {
      const auto count = communicator.counts().handed_on.at(kind).at(obstacle).load();
      if (count == 0) continue;
      handed_on += count;
      reasons.push_back(fmt::format("{} {}", text(static_cast<Obstacle>(obstacle)), count));
    }
    if (served + handed_on == 0) continue;
    result += fmt::format(
        "tutti:   {:<18} {:>10} {:>10}{}\n", name(static_cast<CallKind>(kind)), served, handed_on,
        reasons.empty() ? std::string() : fmt::format("  ({})", fmt::join(reasons, ", ")));
  }
  return result;
}

void print_report(const NcclCommunicator& communicator) {
  const auto report = report_text(communicator);
  std::fwrite(report.data(), 1, report.size(), stderr);
}

}  // namespace tutti::preload
