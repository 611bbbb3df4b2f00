#include "plan/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "algorithm/choice.hpp"
#include "base/shape.hpp"
#include "call_spec.hpp"
#include "catalogue.hpp"
#include "tutti/error.hpp"

namespace tutti::app::plan {
namespace {

/// Fraction of a link's bandwidth that is left for data after Ethernet, IP and TCP headers.
constexpr double share_of_data = 0.949;

Error unusable(const std::string& text) {
  return {ErrorCode::usage, text};
}

std::vector<int> layout_of(PlanOptions& options) {
  if (!options.layout.empty()) {
    const int ranks = std::accumulate(options.layout.begin(), options.layout.end(), 0);
    if (options.ranks != 0 && options.ranks != ranks)
      throw unusable(
          fmt::format("--ranks {} contradicts --layout, which has {} ranks: give one of "
                      "them",
                      options.ranks, ranks));
    options.ranks = ranks;
    options.hosts = static_cast<int>(options.layout.size());
    return options.layout;
  }
  if (options.ranks == 0) throw unusable("missing number of ranks: give --ranks N or --layout");
  if (options.hosts > options.ranks)
    throw unusable(fmt::format("--hosts {} exceeds --ranks {}: each host needs a rank",
                               options.hosts, options.ranks));
  return model::distribute_evenly(options.ranks, options.hosts);
}

std::vector<std::string> known_algorithms(const PlanOptions& options, bool in_rank_order) {
  const auto known = algorithm::algorithms_of(options.operation, in_rank_order);
  std::vector<std::string> names(known.begin(), known.end());
  if (!options.algorithm.empty() &&
      std::find(names.begin(), names.end(), options.algorithm) == names.end())
    throw unusable(fmt::format(
        "{} has no algorithm \"{}\"{}; it has {}", shown_name(options.operation), options.algorithm,
        in_rank_order ? " that combines in the order of ranks" : "", fmt::join(names, ", ")));
  return names;
}

}  // namespace

const model::Prediction& Plan::of(std::string_view algorithm) const {
  return *std::find_if(predictions.begin(), predictions.end(),
                       [&](const auto& p) { return p.algorithm == algorithm; });
}

const model::Prediction* Plan::runner_up() const {
  const auto found = std::find_if(predictions.begin(), predictions.end(),
                                  [&](const auto& p) { return p.algorithm != chosen; });
  return found == predictions.end() ? nullptr : &*found;
}

Plan make(const PlanOptions& given) {
  Plan plan{.options = given, .layout = {}, .chosen = {}, .predictions = {}};
  PlanOptions& options = plan.options;
  plan.layout = layout_of(options);
  const auto& shape = shape_of(options.operation);
  if (options.root >= options.ranks)
    throw unusable(fmt::format("invalid --root {}: expected a rank from 0 to {}", options.root,
                               options.ranks - 1));
  if (!shape.rooted && options.root != 0)
    throw unusable(fmt::format("{} has no root: omit --root", shown_name(options.operation)));
  const bool is_16_bit = options.type == Type::f16 || options.type == Type::bf16;
  const bool in_rank_order = shape.reduces && (options.in_rank_order || is_16_bit);
  const auto names = known_algorithms(options, in_rank_order);

  const app::CallSpec call{.operation = options.operation,
                           .type = options.type,
                           .root = options.root,
                           .rank = 0,
                           .ranks = options.ranks};
  auto sized = call;
  const bool moves_data = shape.recv != Extent::none;
  sized.count = moves_data ? count_for(call, options.bytes) : 1;
  plan.bytes = moves_data ? bytes_of(sized) : 0;
  const auto element = moves_data ? size_of(options.type) : 1;
  model::Machine machine{.host = model::place(plan.layout, options.map_by),
                         .costs = options.costs,
                         .cores_per_host = options.cores_per_host,
                         .numa_nodes = options.numa_nodes,
                         .link_burst_bytes = static_cast<double>(options.burst_bytes)};
  machine.costs.link_rate = options.gbps * 1e9 / 8 * share_of_data;
  plan.costs = machine.costs;
  model::PredictionRequest request{.operation = options.operation,
                                   .root = options.root,
                                   .count = static_cast<std::int64_t>(sized.count),
                                   .element_bytes = static_cast<std::int64_t>(element),
                                   .in_place = !options.out_of_place};
  algorithm::ScheduleArguments problem{.size = options.ranks, .count = request.count};
  problem.host = machine.host;
  problem.max_published = model::max_published(request.element_bytes);
  const algorithm::Traits traits{.element_bytes = request.element_bytes,
                                 .in_rank_order = in_rank_order,
                                 .costs = machine.costs};
  plan.chosen = options.algorithm;
  if (plan.chosen.empty()) plan.chosen = algorithm::choose(options.operation, problem, traits);
  for (const auto& name : names) {
    request.chunk =
        options.chunk_bytes
            ? static_cast<std::int64_t>(std::max<std::size_t>(1, *options.chunk_bytes / element))
            : algorithm::choose_chunk(options.operation, name, problem, traits);
    plan.predictions.push_back(model::predict(machine, request, name));
  }
  std::stable_sort(plan.predictions.begin(), plan.predictions.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return plan;
}

}  // namespace tutti::app::plan
