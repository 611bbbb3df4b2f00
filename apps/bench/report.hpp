#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bandwidth.hpp"
#include "side_result.hpp"
#include "statistics.hpp"

/// What a benchmark says, and the forms in which it says it: pure functions.
namespace tutti::app::bench {

/// One side on one problem. Times are the slowest rank's, in µs.
struct Row {
  std::string peer;
  double median_us = 0;
  double p10_us = 0;
  double p90_us = 0;
  double mean_us = 0;
  std::optional<double> back_to_back_us;  ///< median, of a call among many without a barrier
  Bandwidth bandwidth;
  std::size_t iterations = 0;
  std::optional<std::uint64_t> wrong;  ///< elements; empty where there is no result
  std::string algorithm;
};

/// A peer's time over ours.
struct Ratio {
  std::string vs;
  PairedRatio ratio;
  std::optional<double> back_to_back;
};

struct Missing {
  std::string peer;
  std::string reason;
};

/// All sides on one problem.
struct Cell {
  Problem problem;
  std::vector<Row> rows;
  std::vector<Ratio> ratios;
  std::vector<Missing> missing;
};

/// What is the same for all cells.
struct Facts {
  int ranks = 1;
  int hosts = 1;
  std::string backend;
  std::string version;
  std::string mpi;  ///< empty without
  int cores = 0;    ///< that rank 0 may use
  std::string host;
  std::string processor;
  std::string device;  ///< empty on the host path
  bool graph = false;
  std::map<std::string, std::string> peers;        ///< their versions, by name
  std::map<std::string, std::string> environment;  ///< what may change the figures
};

struct Report {
  Facts facts;
  std::vector<Cell> cells;
};

/// `names` and `results` have one entry a side; the first is ours.
[[nodiscard]] Cell make_cell(const Problem& problem, const std::vector<std::string>& names,
                             const std::vector<SideResult>& results);

/// For people: the variables that are set and may change the figures, a line each; else empty.
[[nodiscard]] std::string environment_note(const Facts& facts);
/// For people: what stands above the cells of an operation, and a cell.
[[nodiscard]] std::string table_heading(const Facts& facts, const Problem& problem);
[[nodiscard]] std::string table_rows(const Cell& cell);

[[nodiscard]] std::string csv_text(const Report& report);
[[nodiscard]] std::string json_text(const Report& report);
/// The tables of nccl-tests and of OSU's benchmarks, one for each operation and side.
[[nodiscard]] std::string nccl_tests_text(const Report& report);
[[nodiscard]] std::string osu_text(const Report& report);

}  // namespace tutti::app::bench
