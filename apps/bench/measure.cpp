#include "measure.hpp"

#include <algorithm>
#include <chrono>

#include "statistics.hpp"

namespace tutti::app::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t min_rounds = 20;
constexpr std::size_t max_rounds = 2000;
constexpr std::size_t trial_rounds = 3;
constexpr std::size_t throughput_rounds = 5;
/// Calls per CUDA graph: many, so that the launch of the graph is a small part of the time.
constexpr std::size_t calls_in_graph = 20;

double seconds_since(Clock::time_point start) {
  // Avoids a ratio with a time of 0.
  return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
}

}  // namespace

struct Measurement::Run {
  Implementation* implementation = nullptr;
  std::unique_ptr<DeviceCalls::Graph> graph = nullptr;
  ImplementationResult result = {};

  [[nodiscard]] bool is_supported() const { return result.missing.empty(); }
};

Measurement::Measurement(JobSession& job, const BenchOptions& options,
                         const Implementations& implementations, const DeviceCalls* device)
    : job_(job), options_(options), device_(device) {
  for (const auto& run : implementations) runs_.push_back(Run{.implementation = run.get()});
}

Measurement::~Measurement() = default;

std::vector<ImplementationResult> Measurement::run(Workload& workload) {
  prepare(workload);
  for (auto& run : runs_) check(run, workload);
  if (options_.graph) {
    for (auto& run : runs_) record_graph(run);
  }
  run_rounds(static_cast<std::size_t>(options_.warmup), false);
  const auto rounds = choose_rounds();
  run_rounds(rounds, true);
  if (!options_.graph) run_throughput(std::max<std::size_t>(rounds / throughput_rounds, 1));
  for (auto& run : runs_) {
    run.graph.reset();
    check(run, workload);
  }
  reduce_over_ranks();
  std::vector<ImplementationResult> results;
  for (auto& run : runs_) results.push_back(std::move(run.result));
  return results;
}

void Measurement::prepare(Workload& workload) {
  const Task task{.spec = workload.spec(),
                  .layout = workload.layout(),
                  .send = workload.send(),
                  .recv = workload.recv(),
                  .stream = job_.stream()};
  for (auto& run : runs_) {
    run.result = {};
    run.result.missing = run.implementation->prepare(task);
  }
}

void Measurement::check(Run& run, Workload& workload) {
  run.result.computes = run.implementation->computes();
  if (!run.is_supported() || !run.result.computes) return;
  workload.prepare();
  run.implementation->take_input();
  job_.communicator().barrier();
  run.implementation->run();
  run.result.algorithm = run.implementation->algorithm();
  wait();
  run.implementation->drain();
  run.implementation->place_result();
  run.result.wrong_elements += workload.check(run.implementation->keeps_input()).elements;
}

void Measurement::record_graph(Run& run) {
  if (!run.is_supported()) return;
  job_.communicator().barrier();
  run.graph = device_->record(job_.stream()->handle, [&] {
    for (std::size_t i = 0; i < calls_in_graph; ++i) run.implementation->run();
  });
}

double Measurement::timed(const Run& run, std::size_t calls) {
  job_.communicator().barrier();
  const auto start = Clock::now();
  if (run.graph) {
    run.graph->launch(job_.stream()->handle);
    calls = calls_in_graph;
  } else {
    for (std::size_t i = 0; i < calls; ++i) run.implementation->run();
  }
  wait();
  const double seconds = seconds_since(start);
  run.implementation->drain();
  return seconds / static_cast<double>(calls);
}

void Measurement::run_rounds(std::size_t rounds, bool keep) {
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const auto index : order_of_round(round, runs_.size())) {
      auto& run = runs_[index];
      if (!run.is_supported()) continue;
      const double seconds = timed(run, 1);
      if (keep) run.result.seconds.push_back(seconds);
    }
  }
}

std::size_t Measurement::choose_rounds() {
  if (options_.iterations > 0) return static_cast<std::size_t>(options_.iterations);
  const auto start = Clock::now();
  run_rounds(trial_rounds, false);
  double seconds = seconds_since(start) / trial_rounds;
  job_.communicator().all_reduce(in_place, std::span(&seconds, 1), max);
  const double wanted = std::chrono::duration<double>(options_.min_time).count() / seconds;
  return std::clamp(static_cast<std::size_t>(std::min(wanted, 1e9)), min_rounds, max_rounds);
}

void Measurement::run_throughput(std::size_t calls) {
  for (std::size_t round = 0; round < throughput_rounds; ++round) {
    for (const auto index : order_of_round(round, runs_.size())) {
      auto& run = runs_[index];
      if (run.is_supported()) run.result.throughput.push_back(timed(run, calls));
    }
  }
}

/// Replaces each time by the slowest rank's and each count of wrong elements by the sum over ranks.
/// Runs after the measurement, so it does not disturb it.
void Measurement::reduce_over_ranks() {
  std::vector<double> times;
  std::vector<std::uint64_t> wrong;
  for (auto& run : runs_) {
    times.insert(times.end(), run.result.seconds.begin(), run.result.seconds.end());
    times.insert(times.end(), run.result.throughput.begin(), run.result.throughput.end());
    wrong.push_back(run.result.wrong_elements);
  }
  job_.communicator().all_reduce(in_place, std::span(times), max);
  job_.communicator().all_reduce(in_place, std::span(wrong), sum);
  std::size_t at = 0;
  std::size_t index = 0;
  for (auto& run : runs_) {
    for (auto& seconds : run.result.seconds) seconds = times[at++];
    for (auto& seconds : run.result.throughput) seconds = times[at++];
    run.result.wrong_elements = wrong[index++];
  }
}

void Measurement::wait() const {
  if (device_ != nullptr) device_->wait_for(job_.stream()->handle);
}

}  // namespace tutti::app::bench
