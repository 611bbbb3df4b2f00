#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catalogue.hpp"
#include "gather_texts.hpp"
#include "output.hpp"
#include "rank_lines.hpp"
#include "result_file.hpp"
#include "subcommands.hpp"
#include "text.hpp"
#include "tutti/version.hpp"
#include "workload.hpp"

namespace tutti::app {
namespace {

CallSpec spec_of(JobSession& job, Operation operation, const OperationOptions& options) {
  auto& communicator = job.communicator();
  CallSpec spec{.operation = operation,
                .type = options.type,
                .op = options.op,
                .root = options.root,
                .in_place = options.in_place,
                .on_nccl = job.is_on_nccl(),
                .rank = communicator.rank(),
                .ranks = communicator.size()};
  if (operation != Operation::barrier) spec.count = count_for(spec, options.bytes);
  return spec;
}

/// `text` with this rank's prefix on each line.
std::string prefixed(JobSession& job, const std::string& text) {
  auto& communicator = job.communicator();
  const int rank = communicator.rank();
  const auto prefix =
      fmt::format("[rank {}/{} | local {} | {} | {}] ", rank, communicator.size(),
                  communicator.local_rank(), communicator.info(rank).host, job.backend());
  std::istringstream lines(text);
  std::string line;
  std::string result;
  while (std::getline(lines, line)) result += prefix + line + "\n";
  return result;
}

double slowest(Communicator& communicator, double seconds) {
  std::array<double, 1> value{seconds};
  communicator.all_reduce(in_place, std::span(value), max);
  return value[0];
}

/// Results of all repetitions on one rank.
struct Runs {
  std::vector<double> seconds;  ///< of the slowest rank, ascending
  std::string algorithm;        ///< empty for messages, which have none
  CheckResult wrong;            ///< of the first repetition with wrong elements

  [[nodiscard]] std::chrono::duration<double> median() const {
    return std::chrono::duration<double>(seconds[seconds.size() / 2]);
  }
};

double timed_call(JobSession& job, Workload& workload, const CallOptions& options) {
  auto& communicator = job.communicator();
  communicator.barrier();
  const auto start = std::chrono::steady_clock::now();
  call(communicator, workload.spec(), workload.send(), workload.recv(), options);
  if (options.stream) communicator.synchronize(*options.stream);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Runs run_all(JobSession& job, Workload& workload, const OperationOptions& options) {
  Runs runs;
  const CallOptions call_options{.algorithm = options.algorithm, .stream = job.stream()};
  for (int i = 0; i < options.repeat; ++i) {
    workload.prepare();
    const auto seconds = timed_call(job, workload, call_options);
    if (shape_of(workload.spec().operation).collective)
      runs.algorithm = job.communicator().latest_algorithm();
    // Keeps the first wrong result: a later correct one does not replace it.
    if (runs.wrong.elements == 0) runs.wrong = workload.check();
    runs.seconds.push_back(slowest(job.communicator(), seconds));
  }
  std::sort(runs.seconds.begin(), runs.seconds.end());
  return runs;
}

std::string summary_of(JobSession& job, const CallSpec& spec, const Runs& runs, int repeat,
                       const std::vector<int>& wrong_ranks) {
  const auto& communicator = job.communicator();
  const bool moves_data = spec.operation != Operation::barrier;
  const auto name = shown_name(spec.operation);
  const auto what = moves_data ? fmt::format("{} of {}", name, size_text(bytes_of(spec))) : name;
  const auto outcome =
      wrong_ranks.empty()
          ? fmt::format("{} on every rank in {}", moves_data ? "verified" : "passed",
                        time_text(runs.median()))
          : fmt::format("WRONG on rank {}", fmt::join(wrong_ranks, ", "));
  return fmt::format("{} on {}, backend {} ({}): {} {}{}\n",
                     count_text(communicator.size(), "rank"),
                     count_text(communicator.host_count(), "host"), job.backend(),
                     communicator.device_path_reason(), what, outcome,
                     repeat > 1 ? fmt::format(" (median of {})", repeat) : "");
}

std::string json_of(JobSession& job, const CallSpec& spec, const Runs& runs,
                    const OperationOptions& options, const std::vector<int>& wrong_ranks) {
  const nlohmann::json json{{"schema", 1},
                            {"version", version_string},
                            {"operation", shown_name(spec.operation)},
                            {"ranks", spec.ranks},
                            {"hosts", job.communicator().host_count()},
                            {"backend", job.backend()},
                            {"algorithm", runs.algorithm},
                            {"type", name(spec.type)},
                            {"bytes", bytes_of(spec)},
                            {"in_place", spec.in_place},
                            {"repeat", options.repeat},
                            {"verified", wrong_ranks.empty()},
                            {"wrong_ranks", wrong_ranks},
                            {"median_us", runs.median().count() * 1e6}};
  return json.dump(2) + "\n";
}

std::vector<int> wrong_ranks_of(Communicator& communicator, const CheckResult& mine) {
  std::vector<std::uint8_t> wrong(static_cast<std::size_t>(communicator.size()));
  wrong[static_cast<std::size_t>(communicator.rank())] = mine.elements > 0 ? 1 : 0;
  communicator.all_reduce(in_place, std::span(wrong), max);
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < wrong.size(); ++rank) {
    if (wrong[rank] != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

int perform(JobSession& job, Operation operation, const OperationOptions& options) {
  auto& communicator = job.communicator();
  ResultFile file(communicator, options.json, "--json");
  const auto spec = spec_of(job, operation, options);
  Workload workload(job, spec);
  const auto runs = run_all(job, workload, options);

  auto report = prefixed(job, rank_lines_of(spec, runs.wrong));
  if (options.verbose) report += prefixed(job, "set-up: " + job.phases());
  const auto reports = gather_texts(communicator, report);
  const auto wrong_ranks = wrong_ranks_of(communicator, runs.wrong);
  std::string text;
  std::string json;
  if (communicator.rank() == 0) {
    if (!options.quiet && !file.is_standard_output()) {
      text = fmt::format("{}", fmt::join(reports, ""));
      if (options.verbose && !runs.algorithm.empty()) {
        text += fmt::format("algorithm: {}\n",
                            runs.algorithm == "nccl" ? "chosen by NCCL" : runs.algorithm);
      }
      text += summary_of(job, spec, runs, options.repeat, wrong_ranks);
    }
    if (file.wanted()) json = json_of(job, spec, runs, options, wrong_ranks);
  }
  // Ends the job before it writes: a slow reader or a full disk must not delay the other ranks.
  job.finish();
  print(text);
  if (!json.empty()) file.write(json);
  return wrong_ranks.empty() ? 0 : 1;
}

}  // namespace tutti::app
