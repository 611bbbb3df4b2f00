#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// `tutti trace`: lays what the ranks of a job recorded (TUTTI_RECORD) side by side. Pure, but for
/// trace().
namespace tutti::app {

struct TraceOptions {
  std::vector<std::string> files;
  std::string chrome;  ///< a timeline goes here
};

struct TracedCall {
  std::uint32_t communicator = 0;
  std::uint64_t sequence = 0;
  std::string operation;
  std::string text;
  std::uint64_t bytes = 0;
  double begin_us = 0;           ///< of the wall clock
  std::optional<double> end_us;  ///< empty: it was in progress
  std::vector<int> awaited;
};

/// What one rank recorded.
struct Record {
  int rank = 0;
  int size = 0;
  std::string host;
  std::uint32_t pid = 0;
  double written_us = 0;
  std::string reason;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> sequences;  ///< of each communicator
  std::vector<TracedCall> calls;
};

/// Throws Error{usage} that names the file.
[[nodiscard]] Record parse_record(const std::string& text, const std::string& file);
/// Who was where, and who is behind.
[[nodiscard]] std::string trace_table(std::vector<Record> records);
/// For chrome://tracing and ui.perfetto.dev: a row a rank.
[[nodiscard]] std::string chrome_timeline(const std::vector<Record>& records);

int trace(const TraceOptions& options);

}  // namespace tutti::app
