#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bandwidth.hpp"
#include "peer_result.hpp"
#include "statistics.hpp"

/// What a benchmark says, and the forms in which it says it: pure functions.
namespace tutti::app::bench {

/// One peer at one call. Times are the slowest rank's, in µs.
struct Row {
  std::string peer;
  double median_us = 0;
  double p10_us = 0;
  double p90_us = 0;
  double mean_us = 0;
  std::optional<double> throughput_us;  ///< median, of a call among many without a barrier
  Bandwidth bandwidth;
  std::size_t iterations = 0;
  std::optional<std::uint64_t> wrong;  ///< elements; empty where there is no result
  std::string algorithm;
};

/// Speed-up against a peer: its time over that of tutti.
struct Ratio {
  std::string vs;
  PairedRatio ratio;
  std::optional<double> throughput;
};

struct Missing {
  std::string peer;
  std::string reason;
};

/// All peers at one call.
struct Comparison {
  CallSpec spec;
  std::vector<Row> rows;
  std::vector<Ratio> ratios;
  std::vector<Missing> missing;
};

/// What is the same for all comparisons.
struct BenchSetup {
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
  BenchSetup setup;
  std::vector<Comparison> comparisons;
};

/// `names` and `results` have one entry a side; the first is ours.
[[nodiscard]] Comparison make_comparison(const CallSpec& spec,
                                         const std::vector<std::string>& names,
                                         const std::vector<PeerResult>& results);

/// For people: the variables that are set and may change the figures, a line each; else empty.
[[nodiscard]] std::string environment_note(const BenchSetup& setup);
/// For people: the heading of an operation, and the rows of one comparison.
[[nodiscard]] std::string table_heading(const BenchSetup& setup, const CallSpec& spec);
[[nodiscard]] std::string table_rows(const Comparison& comparison);

[[nodiscard]] std::string csv_text(const Report& report);
[[nodiscard]] std::string json_text(const Report& report);
/// The tables of nccl-tests and of OSU's benchmarks, one for each operation and side.
[[nodiscard]] std::string nccl_tests_text(const Report& report);
[[nodiscard]] std::string osu_text(const Report& report);

}  // namespace tutti::app::bench
