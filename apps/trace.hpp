#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// `tutti trace`: merges the recorded calls (TUTTI_RECORD) of all ranks. Everything except trace()
/// is a pure function.
namespace tutti::app {

struct TraceOptions {
  std::vector<std::string> files;
  std::string chrome;  ///< path for the timeline
};

struct TracedCall {
  std::uint32_t communicator = 0;
  std::uint64_t sequence = 0;
  std::string operation;
  std::string text;
  std::uint64_t bytes = 0;
  double begin_us = 0;           ///< wall clock
  std::optional<double> end_us;  ///< empty: the call is unfinished
  std::vector<int> awaited;
};

/// The record of one rank.
struct Record {
  int rank = 0;
  int size = 0;
  std::string host;
  std::uint32_t pid = 0;
  double written_us = 0;
  std::string reason;
  /// Communicator id and number of its latest call.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> sequences;
  std::vector<TracedCall> calls;
};

/// Throws Error{usage} with the file's name.
[[nodiscard]] Record parse_record(const std::string& text, const std::string& file);
/// One row per rank: its current call, and how many calls it is behind.
[[nodiscard]] std::string trace_table(std::vector<Record> records);
/// Timeline for chrome://tracing and ui.perfetto.dev, with one row per rank.
[[nodiscard]] std::string chrome_timeline(const std::vector<Record>& records);

int trace(const TraceOptions& options);

}  // namespace tutti::app
