#pragma once

#include <string>
#include <vector>

#include "catalogue.hpp"
#include "options.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): as CLI11 has it
class App;
}

/// Defines the options of the subcommands: names, valid values, and help texts.
namespace tutti::app {

void add_job_options(CLI::App& command, JobOptions& options);
/// Adds --init, --rank and the other options of the launch.
void add_launch_options(CLI::App& command, JobOptions& options);
/// Adds --local-rank, which is also accepted before the subcommand.
void add_local_rank(CLI::App& command, JobOptions& options);
void add_operation_options(CLI::App& command, OperationOptions& options,
                           const CatalogueEntry& entry);
void add_bench_options(CLI::App& command, BenchOptions& options);
void add_tune_options(CLI::App& command, TuneOptions& options);
void add_doctor_options(CLI::App& command, DoctorOptions& options);
void add_hostfile_options(CLI::App& command, HostfileOptions& options);

/// Splits "4,64KiB" at commas. Keeps empty parts, so "4,,5" has an empty second part.
[[nodiscard]] std::vector<std::string> split_list(const std::string& text);

}  // namespace tutti::app
