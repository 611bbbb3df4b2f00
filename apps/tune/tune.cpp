#include <fmt/format.h>

#include "../output.hpp"
#include "../subcommands.hpp"
#include "base/environment.hpp"
#include "device/library.hpp"
#include "paths.hpp"
#include "report.hpp"

namespace tutti::app {
namespace {

constexpr std::size_t min_bytes = std::size_t{4} << 10;
constexpr std::size_t max_bytes = std::size_t{16} << 20;

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::usage, "nothing to tune on this job: " + reason);
}

/// The same on all ranks.
void require_gpus(const JobSession& job, const Communicator& communicator) {
  if (!job.is_on_nccl()) {
    refuse(fmt::format("its backend is {} ({})", job.backend(), communicator.device_path_reason()));
  }
  if (communicator.size() == 1) refuse("it has one rank, and needs one for each GPU of the host");
  if (communicator.host_count() > 1) {
    refuse(
        "its ranks are on several hosts, and the direct path is between the GPUs of one: tune "
        "each kind of host by a job of its own");
  }
}

/// "NVIDIA H200" from "NVIDIA H200, 0000:19:00.0".
std::string card_of(const RankInfo& info) {
  return info.device.substr(0, info.device.rfind(','));
}

device::TuningKey key_of(const Communicator& communicator) {
  std::vector<std::string> cards;
  cards.reserve(static_cast<std::size_t>(communicator.size()));
  for (int rank = 0; rank < communicator.size(); ++rank) {
    cards.push_back(card_of(communicator.info(rank)));
  }
  int version = 0;
  const auto nccl = device::load_nccl();
  if (nccl.usable()) nccl.calls.get_version(&version);
  return device::make_tuning_key(cards, device::load_cuda().calls, version);
}

std::vector<tune::Timed> times_of(tune::Paths& paths, Operation operation) {
  std::vector<tune::Timed> times;
  for (auto bytes = min_bytes; bytes <= max_bytes && !tune::is_settled(times); bytes *= 2) {
    times.push_back(paths.measure(operation, bytes));
  }
  return times;
}

}  // namespace

int tune_paths(JobSession& job, const TuneOptions& options) {
  const auto& communicator = job.communicator();
  require_gpus(job, communicator);
  const bool is_reporter = communicator.rank() == 0;
  device::TuningEntry entry{.key = key_of(communicator)};
  {
    tune::Paths paths(job, options.min_time);
    if (!paths.has_direct()) {
      refuse("its GPUs have no direct path between them, so NCCL takes all calls");
    }
    if (is_reporter) print(tune::table_heading());
    for (std::size_t i = 0; i < entry.limits.size(); ++i) {
      const auto operation = device::tuned_operations.at(i);
      const auto times = times_of(paths, operation);
      entry.limits.at(i) = tune::direct_up_to(times);
      if (is_reporter) print(tune::table_rows(operation, times));
    }
  }
  job.finish();
  if (!is_reporter) return 0;
  const auto file =
      options.out.empty() ? Environment::from(current_environment()).tuning_file : options.out;
  if (!file.empty()) device::write_tuning(file, entry);
  print(tune::conclusion(entry, file));
  return 0;
}

}  // namespace tutti::app
