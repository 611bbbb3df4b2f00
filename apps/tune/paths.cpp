#include "paths.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "../bench/statistics.hpp"
#include "../text.hpp"

namespace tutti::app::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t warmup_calls = 5;
/// Calls that are queued together: many enough that the wait for their end is a small part.
constexpr double batch_seconds = 2e-3;
constexpr std::size_t min_calls = 4;
constexpr std::size_t max_calls = 50;
constexpr std::size_t min_rounds = 6;  // each path is first in half of them
constexpr std::size_t max_rounds = 40;
/// Results are checked up to this size, which all protocols of the direct path serve: the check
/// takes longer than the call.
constexpr std::size_t max_checked_bytes = std::size_t{1} << 20;

std::size_t times(double wanted, std::size_t min, std::size_t max) {
  return std::clamp(static_cast<std::size_t>(std::min(wanted, 1e9)), min, max);
}

}  // namespace

Paths::Paths(JobSession& job, std::chrono::nanoseconds min_time)
    : job_(job),
      min_time_(min_time),
      paths_{bench::make_tutti_implementation(job),
             bench::make_nccl_implementation(job, bench::NcclForm::grouped)} {}

CallSpec Paths::spec_of(Operation operation, Kind kind, std::size_t bytes) const {
  const auto& communicator = job_.communicator();
  CallSpec spec{.operation = operation,
                .in_place = true,
                .allocated = kind == Kind::in_windows,
                .on_nccl = true,
                .rank = communicator.rank(),
                .ranks = communicator.size()};
  spec.count = count_for(spec, bytes);
  return spec;
}

void Paths::prepare(Workload& workload) {
  const bench::Task task{.spec = workload.spec(),
                         .layout = workload.layout(),
                         .send = workload.send(),
                         .recv = workload.recv(),
                         .stream = job_.stream()};
  for (const auto& path : paths_) {
    const auto missing = path->prepare(task);
    if (!missing.empty()) throw Error(ErrorCode::usage, missing);
  }
}

bool Paths::has_direct() {
  Workload workload(job_, spec_of(Operation::all_reduce, Kind::ordinary, sizeof(float)));
  prepare(workload);
  auto& path = *paths_[0];
  path.run();
  const bool is_direct = path.algorithm() == "direct";
  path.drain();
  return is_direct;
}

double Paths::seconds_of_call(bench::Implementation& path, std::size_t calls) {
  auto& communicator = job_.communicator();
  communicator.barrier();
  const auto start = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) path.run();
  device_.wait_for(job_.stream()->handle);
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  path.drain();
  communicator.all_reduce(in_place, std::span(&seconds, 1), max);
  return std::max(seconds, 1e-9) / static_cast<double>(calls);
}

Timed Paths::measure(Operation operation, Kind kind, std::size_t bytes) {
  Workload workload(job_, spec_of(operation, kind, bytes));
  prepare(workload);
  double slowest = 0;
  for (const auto& path : paths_) {
    static_cast<void>(seconds_of_call(*path, warmup_calls));
    slowest = std::max(slowest, seconds_of_call(*path, min_calls));
  }
  const auto calls = times(batch_seconds / slowest, min_calls, max_calls);
  const double round = slowest * static_cast<double>(paths * calls);
  const auto rounds =
      times(std::chrono::duration<double>(min_time_).count() / round, min_rounds, max_rounds);
  std::array<std::vector<double>, paths> seconds;
  for (std::size_t i = 0; i < rounds; ++i) {
    for (const auto path : bench::order_of_round(i, paths)) {
      seconds.at(path).push_back(seconds_of_call(*paths_.at(path), calls));
    }
  }
  if (bytes <= max_checked_bytes) require_right(workload);
  constexpr double us = 1e6;
  return {.bytes = bytes,
          .direct_us = us * bench::quantile(seconds[0], 0.5),
          .nccl_us = us * bench::quantile(seconds[1], 0.5)};
}

void Paths::require_right(Workload& workload) {
  auto& communicator = job_.communicator();
  workload.prepare();
  static_cast<void>(seconds_of_call(*paths_[0], 1));
  std::uint64_t wrong = workload.check().elements;
  communicator.all_reduce(in_place, std::span(&wrong, 1), sum);
  if (wrong == 0) return;
  const auto& spec = workload.spec();
  throw Error(ErrorCode::system,
              fmt::format("wrong result of {} of {} by the direct path: {} elements differ; set "
                          "TUTTI_DEVICE_PATH=nccl on this machine",
                          name(spec.operation), size_text(bytes_of(spec)), wrong));
}

}  // namespace tutti::app::tune
