#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bandwidth.hpp"
#include "implementation_result.hpp"
#include "statistics.hpp"

/// The results of a benchmark and their output formats. Pure functions.
namespace tutti::app::bench {

/// Results of one implementation for one call. Times are the slowest rank's, in µs.
struct Row {
  std::string implementation;
  double median_us = 0;
  double p10_us = 0;
  double p90_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double mean_us = 0;
  /// Median in throughput mode: without a barrier between the calls.
  std::optional<double> throughput_us;
  Bandwidth bandwidth;
  std::size_t iterations = 0;
  std::optional<std::uint64_t> wrong;  ///< elements; empty if there is no result
  std::string algorithm;
};

/// Speed-up against an implementation: the implementation's time divided by tutti's.
struct Ratio {
  std::string vs;
  PairedRatio ratio;
  std::optional<double> throughput;
};

struct Missing {
  std::string implementation;
  std::string reason;
};

/// Results of all implementations for one call.
struct Comparison {
  CallSpec spec;
  std::vector<Row> rows;
  std::vector<Ratio> ratios;
  std::vector<Missing> missing;
};

/// Settings that all comparisons of a run share.
struct BenchSetup {
  int ranks = 1;
  int hosts = 1;
  std::string backend;
  std::string version;
  std::string mpi;        ///< empty without MPI
  int cores = 0;          ///< in rank 0's affinity mask
  double core_quota = 0;  ///< of rank 0's control groups, in cores; 0: none
  std::string host;
  std::string processor;
  std::string device;  ///< empty on the host path
  bool graph = false;
  std::map<std::string, std::string> implementations;  ///< versions by name
  std::map<std::string, std::string> environment;  ///< variables that can change the measured times
};

struct Report {
  BenchSetup setup;
  std::vector<Comparison> comparisons;
};

/// `names` and `results` have one entry per implementation. The first is tutti.
[[nodiscard]] Comparison make_comparison(const CallSpec& spec,
                                         const std::vector<std::string>& names,
                                         const std::vector<ImplementationResult>& results);

/// Lists the variables that are set and can change the times, one per line. Empty if there are
/// none.
[[nodiscard]] std::string environment_note(const BenchSetup& setup);
/// The heading of an operation, and the rows of one comparison.
[[nodiscard]] std::string table_heading(const BenchSetup& setup, const CallSpec& spec);
[[nodiscard]] std::string table_rows(const Comparison& comparison);

[[nodiscard]] std::string csv_text(const Report& report);
[[nodiscard]] std::string json_text(const Report& report);
/// Tables in the formats of nccl-tests and OSU's benchmarks, one per operation and implementation.
[[nodiscard]] std::string nccl_tests_text(const Report& report);
[[nodiscard]] std::string osu_text(const Report& report);

}  // namespace tutti::app::bench
