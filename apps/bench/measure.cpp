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
constexpr std::size_t back_to_back_rounds = 5;
/// In a CUDA graph, so that the launch of the graph itself counts little.
constexpr std::size_t calls_in_graph = 20;

double seconds_since(Clock::time_point start) {
  // A call that takes no time at all would make ratios of nothing.
  return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
}

}  // namespace

struct Measurement::Side {
  Peer* peer = nullptr;
  std::unique_ptr<DeviceCalls::Graph> graph = nullptr;
  SideResult result = {};

  [[nodiscard]] bool takes_part() const { return result.missing.empty(); }
};

Measurement::Measurement(Job& job, const BenchOptions& options, const Sides& sides,
                         const DeviceCalls* device)
    : job_(job), options_(options), device_(device) {
  for (const auto& side : sides) sides_.push_back(Side{.peer = side.get()});
}

Measurement::~Measurement() = default;

std::vector<SideResult> Measurement::run(Workload& workload) {
  prepare(workload);
  for (auto& side : sides_) check(side, workload);
  if (options_.graph) {
    for (auto& side : sides_) record_graph(side);
  }
  run_rounds(static_cast<std::size_t>(options_.warmup), false);
  const auto rounds = choose_rounds();
  run_rounds(rounds, true);
  if (!options_.graph) run_back_to_back(std::max<std::size_t>(rounds / back_to_back_rounds, 1));
  for (auto& side : sides_) {
    side.graph.reset();
    check(side, workload);
  }
  agree();
  std::vector<SideResult> results;
  for (auto& side : sides_) results.push_back(std::move(side.result));
  return results;
}

void Measurement::prepare(Workload& workload) {
  const Task task{.problem = workload.problem(),
                  .layout = workload.layout(),
                  .send = workload.send(),
                  .recv = workload.recv(),
                  .stream = job_.stream()};
  for (auto& side : sides_) {
    side.result = {};
    side.result.missing = side.peer->prepare(task);
  }
}

void Measurement::check(Side& side, Workload& workload) {
  side.result.computes = side.peer->computes();
  if (!side.takes_part() || !side.result.computes) return;
  workload.prepare();
  job_.communicator().barrier();
  side.peer->run();
  side.result.algorithm = side.peer->algorithm();
  wait();
  side.peer->settle();
  side.peer->place_result();
  side.result.wrong_elements += workload.check(side.peer->keeps_input()).elements;
}

void Measurement::record_graph(Side& side) {
  if (!side.takes_part()) return;
  job_.communicator().barrier();
  side.graph = device_->record(job_.stream()->handle, [&] {
    for (std::size_t i = 0; i < calls_in_graph; ++i) side.peer->run();
  });
}

double Measurement::timed(const Side& side, std::size_t calls) {
  job_.communicator().barrier();
  const auto start = Clock::now();
  if (side.graph) {
    side.graph->launch(job_.stream()->handle);
    calls = calls_in_graph;
  } else {
    for (std::size_t i = 0; i < calls; ++i) side.peer->run();
  }
  wait();
  const double seconds = seconds_since(start);
  side.peer->settle();
  return seconds / static_cast<double>(calls);
}

void Measurement::run_rounds(std::size_t rounds, bool keep) {
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const auto index : order_of_round(round, sides_.size())) {
      auto& side = sides_[index];
      if (!side.takes_part()) continue;
      const double seconds = timed(side, 1);
      if (keep) side.result.seconds.push_back(seconds);
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

void Measurement::run_back_to_back(std::size_t calls) {
  for (std::size_t round = 0; round < back_to_back_rounds; ++round) {
    for (const auto index : order_of_round(round, sides_.size())) {
      auto& side = sides_[index];
      if (side.takes_part()) side.result.back_to_back.push_back(timed(side, calls));
    }
  }
}

/// Each time becomes the slowest rank's, each count of wrong elements the sum over ranks. Only now,
/// so that the measurement is not disturbed.
void Measurement::agree() {
  std::vector<double> times;
  std::vector<std::uint64_t> wrong;
  for (auto& side : sides_) {
    times.insert(times.end(), side.result.seconds.begin(), side.result.seconds.end());
    times.insert(times.end(), side.result.back_to_back.begin(), side.result.back_to_back.end());
    wrong.push_back(side.result.wrong_elements);
  }
  job_.communicator().all_reduce(in_place, std::span(times), max);
  job_.communicator().all_reduce(in_place, std::span(wrong), sum);
  std::size_t at = 0;
  std::size_t index = 0;
  for (auto& side : sides_) {
    for (auto& seconds : side.result.seconds) seconds = times[at++];
    for (auto& seconds : side.result.back_to_back) seconds = times[at++];
    side.result.wrong_elements = wrong[index++];
  }
}

void Measurement::wait() const {
  if (device_ != nullptr) device_->wait_for(job_.stream()->handle);
}

}  // namespace tutti::app::bench
