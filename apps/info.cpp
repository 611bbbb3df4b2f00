#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "device/locality.hpp"
#include "gather_texts.hpp"
#include "output.hpp"
#include "subcommands.hpp"
#include "text.hpp"

namespace tutti::app {

namespace {

/// NUMA node of this rank's device: "node 0", or "node 1, far" if none of this rank's cores is on
/// that node.
std::string numa_of(const Communicator& communicator) {
  const auto& device = communicator.info(communicator.rank()).device;
  if (device.empty()) return "-";
  const auto locality = device::device_locality(device.substr(device.rfind(' ') + 1));
  if (!locality.unknown_because.empty()) return "? (" + locality.unknown_because + ")";
  return fmt::format("node {}{}", locality.numa_node, locality.far_from_cpus ? ", far" : "");
}

/// Number of cores: "2", or "2 (quota 0.5)" if a cgroup limits the CPU time.
std::string cores_of(const RankInfo& entry) {
  if (entry.core_quota == 0) return std::to_string(entry.cores);
  return fmt::format("{} (quota {:g})", entry.cores, entry.core_quota);
}

}  // namespace

int info(JobSession& job, const JobOptions& options) {
  auto& communicator = job.communicator();
  const auto sources = gather_texts(communicator, job.source());
  const auto numa = gather_texts(communicator, numa_of(communicator));
  std::string text;
  if (communicator.rank() == 0) {
    using Row = std::array<std::string, 10>;
    std::vector<Row> rows{{"rank", "local rank", "host", "pid", "cores", "device", "uuid", "numa",
                           "address", "source"}};
    for (int rank = 0; rank < communicator.size(); ++rank) {
      const auto& entry = communicator.info(rank);
      rows.push_back({std::to_string(rank), std::to_string(entry.local_rank), entry.host,
                      std::to_string(entry.pid), cores_of(entry),
                      entry.device.empty() ? "cpu" : entry.device,
                      entry.device_uuid.empty() ? "-" : entry.device_uuid,
                      numa[static_cast<std::size_t>(rank)], entry.address,
                      sources[static_cast<std::size_t>(rank)]});
    }
    std::array<std::size_t, std::tuple_size_v<Row>> widths{};
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto& row : rows) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        line += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i];
      }
      text += line + "\n";
    }
    text += fmt::format("{} on {}\n", count_text(communicator.size(), "rank"),
                        count_text(communicator.host_count(), "host"));
    if (options.verbose) text += fmt::format("set-up: {}\n", job.phases());
  }
  job.finish();
  print(text);
  return 0;
}

}  // namespace tutti::app
