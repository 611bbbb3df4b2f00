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

/// `tutti plan`: predicts traffic and time of a call on a machine that the options describe. Needs
/// no ranks and no MPI.
namespace tutti::app::plan {

struct PlanOptions {
  Operation operation = Operation::broadcast;
  int ranks = 0;
  int hosts = 1;
  std::vector<int> layout;  ///< ranks per host; empty: distributed evenly
  model::MapBy map_by = model::MapBy::slot;
  std::size_t bytes = std::size_t{4} << 20;
  Type type = Type::f32;
  int root = 0;
  std::string algorithm;  ///< empty: the one that a call would select
  std::optional<std::size_t> chunk_bytes;
  bool out_of_place = false;
  bool in_rank_order = false;
  double gbps = 10;             ///< nominal bandwidth of each host's link, per direction
  std::size_t burst_bytes = 0;  ///< size of the token bucket of a shaped link
  algorithm::CostModel costs;
  int cores_per_host = 0;
  int numa_nodes = 1;
  std::string json;
  std::string write_model;  ///< path of a file for TUTTI_MODEL
};

struct Plan {
  PlanOptions options;
  std::vector<int> layout;
  std::size_t bytes = 0;                       ///< rounded up to whole elements
  algorithm::CostModel costs;                  ///< including the link's rate
  std::string chosen;                          ///< the algorithm that a call would select
  std::vector<model::Prediction> predictions;  ///< sorted by time, ascending
  [[nodiscard]] const model::Prediction& of(std::string_view algorithm) const;
  /// The fastest algorithm besides the chosen one; null if there is no other.
  [[nodiscard]] const model::Prediction* runner_up() const;
};

void add_options(CLI::App& command, PlanOptions& options);
/// Throws Error{usage}.
[[nodiscard]] Plan make(const PlanOptions& options);
[[nodiscard]] std::string text_of(const Plan& plan);
[[nodiscard]] std::string json_text(const Plan& plan);
/// Runs the subcommand. Returns the exit status.
int run(const PlanOptions& options);

}  // namespace tutti::app::plan
