#include "operation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text.hpp"
#include "tutti/version.hpp"

namespace tutti::app {
namespace {

std::string prefix_of(Job& job) {
  const auto& communicator = job.communicator();
  const auto& info = communicator.info(communicator.rank());
  return fmt::format("[rank {}/{} | local {} | {} | {}] ", communicator.rank(), communicator.size(),
                     communicator.local_rank(), info.host, job.backend());
}

/// `text` with the rank's prefix before each line.
std::string prefixed(Job& job, const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::string result;
  while (std::getline(lines, line)) result += prefix_of(job) + line + "\n";
  return result;
}

double slowest(Communicator& communicator, double seconds) {
  std::array<double, 1> value{seconds};
  communicator.all_reduce(in_place, std::span(value), max);
  return value[0];
}

void write_json(const std::string& file, const nlohmann::json& json) {
  const auto text = json.dump(2) + "\n";
  if (file == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  std::ofstream stream(file);
  stream << text;
  stream.close();
  if (!stream) {
    throw Error(ErrorCode::system,
                fmt::format("can't write {}: check that its folder exists and is "
                            "writable",
                            file));
  }
}

}  // namespace

std::size_t element_count(const OperationOptions& options) {
  const auto size = size_of(options.type);
  return (options.bytes + size - 1) / size;
}

int perform(Job& job, const OperationOptions& options, const Operation& operation) {
  auto& communicator = job.communicator();
  std::vector<double> times;
  std::string algorithm_used;
  Outcome outcome;
  for (int i = 0; i < options.repeat; ++i) {
    operation.prepare();
    communicator.barrier();
    const auto start = std::chrono::steady_clock::now();
    operation.run();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    algorithm_used = communicator.latest_algorithm();
    // The first wrong result stays: a later right one does not mend it.
    if (outcome.wrong.empty()) outcome = operation.check();
    times.push_back(slowest(communicator, time.count()));
  }
  auto report = prefixed(job, outcome.line);
  if (options.verbose) report += prefixed(job, "set-up: " + job.phases());
  const auto reports = gather_texts(communicator, report);
  const auto wrongs = gather_texts(communicator, outcome.wrong);
  const auto backend = fmt::format("{} ({})", job.backend(), communicator.device_path_reason());
  int status = outcome.wrong.empty() ? 0 : 1;

  if (communicator.rank() == 0) {
    std::vector<int> wrong_ranks;
    for (std::size_t rank = 0; rank < wrongs.size(); ++rank) {
      if (!wrongs[rank].empty()) wrong_ranks.push_back(static_cast<int>(rank));
    }
    std::sort(times.begin(), times.end());
    const std::chrono::duration<double> median(times[times.size() / 2]);
    const auto what = operation.moves_data
                          ? fmt::format("{} of {}", operation.name, size_text(operation.bytes))
                          : operation.name;
    const auto verdict =
        wrong_ranks.empty()
            ? fmt::format("{} on every rank in {}", operation.moves_data ? "verified" : "passed",
                          time_text(median))
            : fmt::format("WRONG on rank {}", fmt::join(wrong_ranks, ", "));
    const auto repeated = options.repeat > 1 ? fmt::format(" (median of {})", options.repeat) : "";
    const auto summary = fmt::format(
        "{} on {}, backend {}: {} {}{}\n", count_text(communicator.size(), "rank"),
        count_text(communicator.host_count(), "host"), backend, what, verdict, repeated);
    if (!options.quiet && options.json != "-") {
      for (const auto& text : reports) std::fwrite(text.data(), 1, text.size(), stdout);
      if (options.verbose) fmt::print("algorithm: {}\n", algorithm_used);
      std::fwrite(summary.data(), 1, summary.size(), stdout);
      std::fflush(stdout);
    }
    if (!options.json.empty()) {
      write_json(options.json, {{"schema", 1},
                                {"version", version_string},
                                {"operation", operation.name},
                                {"ranks", communicator.size()},
                                {"hosts", communicator.host_count()},
                                {"backend", job.backend()},
                                {"algorithm", algorithm_used},
                                {"type", name(options.type)},
                                {"bytes", operation.bytes},
                                {"repeat", options.repeat},
                                {"verified", wrong_ranks.empty()},
                                {"wrong_ranks", wrong_ranks},
                                {"median_us", median.count() * 1e6}});
    }
    if (!wrong_ranks.empty()) status = 1;
  }
  job.finish();
  return status;
}

}  // namespace tutti::app
