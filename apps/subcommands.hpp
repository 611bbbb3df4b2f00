#pragma once

#include "job_session.hpp"
#include "options.hpp"

/// One function a subcommand: the whole body, on one rank. Returns the exit status. Collective.
namespace tutti::app {

/// Runs the operation, checks it, and says what each rank did.
int perform(JobSession& job, Operation operation, const OperationOptions& options);
int info(JobSession& job, const JobOptions& options);
int benchmark(JobSession& job, const BenchOptions& options);

}  // namespace tutti::app
