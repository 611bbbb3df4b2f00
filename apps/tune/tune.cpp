#include <fmt/format.h>

#include <algorithm>

#include "../output.hpp"
#include "../subcommands.hpp"
#include "base/environment.hpp"
#include "device/library.hpp"
#include "paths.hpp"
#include "report.hpp"

namespace tutti::app {
namespace {

using tune::Paths;

/// The sizes that are measured.
struct Range {
  std::size_t min_bytes;
  std::size_t max_bytes;
};
constexpr Range ordinary_range{std::size_t{4} << 10, std::size_t{16} << 20};
/// Smaller calls do not use windows.
constexpr Range window_range{std::size_t{512} << 10, std::size_t{64} << 20};

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

Range cut(Range range, std::size_t max_bytes) {
  range.max_bytes = std::min(range.max_bytes, max_bytes);
  return range;
}

std::vector<tune::Timed> times_of(Paths& paths, Operation operation, Paths::Kind kind,
                                  const Range& range) {
  std::vector<tune::Timed> times;
  for (auto bytes = range.min_bytes; bytes <= range.max_bytes && !tune::is_settled(times);
       bytes *= 2) {
    times.push_back(paths.measure(operation, kind, bytes));
  }
  return times;
}

device::TunedLimits limits_of(Paths& paths, Paths::Kind kind, const Range& range,
                              bool is_reporter) {
  device::TunedLimits limits{};
  if (is_reporter) app::print(tune::table_heading());
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const auto operation = device::tuned_operations.at(i);
    const auto times = times_of(paths, operation, kind, range);
    limits.at(i) = tune::direct_up_to(times);
    if (is_reporter) app::print(tune::table_rows(operation, times));
  }
  return limits;
}

}  // namespace

int tune_paths(JobSession& job, const TuneOptions& options) {
  const auto& communicator = job.communicator();
  require_gpus(job, communicator);
  const bool is_reporter = communicator.rank() == 0;
  device::TuningEntry entry{.key = key_of(communicator)};
  {
    Paths paths(job, options.min_time);
    if (!paths.has_direct()) {
      refuse("its GPUs have no direct path between them, so NCCL takes all calls");
    }
    entry.limits = limits_of(paths, Paths::Kind::ordinary, cut(ordinary_range, options.max_bytes),
                             is_reporter);
    if (is_reporter) print("\nmemory from allocate_device():\n");
    entry.windows = limits_of(paths, Paths::Kind::in_windows, cut(window_range, options.max_bytes),
                              is_reporter);
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
