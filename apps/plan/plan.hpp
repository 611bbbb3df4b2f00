#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/prediction.hpp"
#include "tutti/operation.hpp"
#include "tutti/types.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): as CLI11 has it
class App;
}

/// `tutti plan`: what a call would do and take on a machine that need not be here. No ranks, no
/// MPI.
namespace tutti::app::plan {

struct PlanOptions {
  Operation operation = Operation::broadcast;
  int ranks = 0;
  int hosts = 1;
  std::vector<int> layout;  ///< ranks of each host; empty: as even as can be
  model::MapBy map_by = model::MapBy::slot;
  std::size_t bytes = std::size_t{4} << 20;
  Type type = Type::f32;
  int root = 0;
  std::string algorithm;  ///< empty: as a call would choose
  std::optional<std::size_t> chunk_bytes;
  bool out_of_place = false;
  bool in_rank_order = false;
  double gbps = 10;             ///< of each host's link, each way, as its maker counts
  std::size_t burst_bytes = 0;  ///< what a shaped link passes before that rate holds
  algorithm::CostModel costs;
  int cores_per_host = 0;
  int numa_nodes = 1;
  std::string json;
  std::string write_model;  ///< a file for TUTTI_MODEL
};

struct Plan {
  PlanOptions options;
  std::vector<int> layout;
  std::size_t bytes = 0;                       ///< after rounding up to whole elements
  algorithm::CostModel costs;                  ///< with the link's rate
  std::string chosen;                          ///< what a call would use
  std::vector<model::Prediction> predictions;  ///< the fastest first
  [[nodiscard]] const model::Prediction& of(std::string_view algorithm) const;
  /// The fastest of those that are not chosen; null where there is no other.
  [[nodiscard]] const model::Prediction* runner_up() const;
};

void add_options(CLI::App& command, PlanOptions& options);
/// Throws Error{usage}.
[[nodiscard]] Plan make(const PlanOptions& options);
[[nodiscard]] std::string text_of(const Plan& plan);
[[nodiscard]] std::string json_text(const Plan& plan);
/// The subcommand's body; returns the exit status.
int run(const PlanOptions& options);

}  // namespace tutti::app::plan
