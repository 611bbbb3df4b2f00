#pragma once

#include "job_session.hpp"
#include "options.hpp"

/// Bodies of the subcommands. Each is collective and returns the exit status.
namespace tutti::app {

/// Runs the operation, checks the result, and prints the report of each rank.
int perform(JobSession& job, Operation operation, const OperationOptions& options);
int info(JobSession& job, const JobOptions& options);
int benchmark(JobSession& job, const BenchOptions& options);
int tune_paths(JobSession& job, const TuneOptions& options);

}  // namespace tutti::app
