#include "model/prediction.hpp"

#include <algorithm>
#include <stdexcept>

#include "algorithm/choice.hpp"
#include "algorithm/cost.hpp"
#include "base/shape.hpp"
#include "model/simulator.hpp"

namespace tutti::model {

namespace {

/// The first two hosts, the middle one and the last. If their schedules are equivalent, those of
/// all hosts are assumed to be.
constexpr std::int64_t sampled_hosts = 4;

using algorithm::Schedule;
using algorithm::ScheduleArguments;

class Predictor {
 public:
  Predictor(const Machine& machine, const PredictionRequest& request, std::string_view algorithm,
            const Limits& limits)
      : machine_(machine),
        request_(request),
        algorithm_(algorithm),
        limits_(limits),
        hosts_(*std::max_element(machine.host.begin(), machine.host.end()) + 1) {}

  Prediction run() {
    estimate();
    const std::int64_t steps = total_steps();
    if (steps <= limits_.simulated_steps) {
      traffic(request_.count, false);
      simulate(Method::simulated);
      return std::move(result_);
    }
    if (shape_of(request_.operation).rooted) {
      if (steps <= limits_.counted_steps) traffic(request_.count, false);
      return std::move(result_);
    }
    if (steps / hosts_ * sampled_hosts > limits_.counted_steps) return std::move(result_);
    traffic(request_.count, true);
    const std::int64_t ranks = size();
    const std::int64_t even = (request_.count + ranks - 1) / ranks * ranks;
    if (!result_.traffic.hosts_are_equivalent && even != request_.count) traffic(even, true);
    if (result_.traffic.hosts_are_equivalent && hosts_ > 2) simulate(Method::one_host);
    return std::move(result_);
  }

 private:
  [[nodiscard]] int size() const { return static_cast<int>(machine_.host.size()); }
  [[nodiscard]] Schedule schedule_of(int rank, std::int64_t count) const {
    ScheduleArguments problem{.rank = rank,
                              .size = size(),
                              .root = request_.root,
                              .count = count,
                              .chunk = request_.chunk,
                              .in_place = request_.in_place};
    problem.host = machine_.host;
    problem.max_published = max_published(request_.element_bytes);
    problem.shares_memory = true;
    return algorithm::make(request_.operation, algorithm_, problem);
  }

  void estimate() {
    const auto bytes = static_cast<double>(request_.element_bytes);
    const algorithm::CostQuestion asked{.operation = request_.operation,
                                        .algorithm = algorithm_,
                                        .layout = algorithm::rank_layout(size(), machine_.host),
                                        .bytes = static_cast<double>(request_.count) * bytes,
                                        .chunk = static_cast<double>(request_.chunk) * bytes,
                                        .max_published = static_cast<double>(max_published_bytes)};
    result_.algorithm = algorithm_;
    result_.method = Method::estimated;
    result_.seconds = algorithm::cost_of(asked, machine_.costs);
    result_.rounds = algorithm::rounds_of(asked);
    result_.count = request_.count;
    result_.chunk = request_.chunk;
  }

  /// Steps of all ranks, computed from the loop counts. With more than 8192 ranks, extrapolated
  /// from a sample of ranks.
  [[nodiscard]] std::int64_t total_steps() const {
    const int stride = 1 + size() / 8192;
    std::int64_t sum = 0;
    for (int rank = 0; rank < size(); rank += stride) {
      const Schedule schedule = schedule_of(rank, request_.count);
      for (const auto& loop : schedule.loops)
        sum += loop.outer_count * loop.inner_count * schedule.passes *
               static_cast<std::int64_t>(loop.steps.size());
    }
    return sum * stride;
  }

  void traffic(std::int64_t count, bool sampled) {
    TrafficCounter counter(machine_);
    for (int rank = 0; rank < size(); ++rank) {
      const int host = machine_.host[static_cast<std::size_t>(rank)];
      if (!sampled || host < 2 || host == hosts_ / 2 || host == hosts_ - 1)
        counter.add(rank, schedule_of(rank, count));
    }
    result_.traffic = counter.result();
    result_.count = count;
  }

  void simulate(Method method) {
    const bool one = method == Method::one_host;
    Actors actors{.schedules = {}, .rank = {}, .actor_of = local_ranks(machine_.host)};
    actors.one_host_for_all = one;
    for (int rank = 0; rank < size(); ++rank) {
      if (one && machine_.host[static_cast<std::size_t>(rank)] != 0) continue;
      actors.schedules.push_back(schedule_of(rank, result_.count));
      actors.rank.push_back(rank);
    }
    if (!one) actors.actor_of = actors.rank;
    const auto element_bytes = static_cast<double>(request_.element_bytes);
    Simulator simulator(machine_, actors, element_bytes);
    Outcome outcome = simulator.run();
    if (machine_.link_burst_bytes > 0) {
      Simulator next(machine_, actors, element_bytes);
      next.continue_after(simulator);
      outcome = next.run();
    }
    if (outcome.stuck)
      throw std::logic_error("the schedule of " + std::string(algorithm_) + " does not complete");
    result_.method = method;
    result_.seconds = outcome.seconds;
  }

  const Machine& machine_;
  const PredictionRequest& request_;
  std::string_view algorithm_;
  Limits limits_;
  int hosts_;
  Prediction result_;
};

}  // namespace

Prediction predict(const Machine& machine, const PredictionRequest& request,
                   std::string_view algorithm, const Limits& limits) {
  return Predictor(machine, request, algorithm, limits).run();
}

}  // namespace tutti::model
