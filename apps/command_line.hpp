#pragma once

#include <string>
#include <vector>

#include "catalogue.hpp"
#include "options.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): as CLI11 has it
class App;
}

/// The options of the subcommands: what they are called, what they accept, and what --help says.
namespace tutti::app {

void add_job_options(CLI::App& command, JobOptions& options);
/// --init, --rank and their like.
void add_launch_options(CLI::App& command, JobOptions& options);
/// --local-rank, which may also stand before the subcommand.
void add_local_rank(CLI::App& command, JobOptions& options);
void add_operation_options(CLI::App& command, OperationOptions& options,
                           const CatalogueEntry& entry);
void add_bench_options(CLI::App& command, BenchOptions& options);
void add_doctor_options(CLI::App& command, DoctorOptions& options);
void add_hostfile_options(CLI::App& command, HostfileOptions& options);

/// "4,64KiB" as its parts. No part is left out, so that "4,,5" has an empty one.
[[nodiscard]] std::vector<std::string> split_list(const std::string& text);

}  // namespace tutti::app
