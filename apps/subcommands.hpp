#pragma once

#include "job.hpp"
#include "options.hpp"

/// One function a subcommand: the whole body, on one rank. Returns the exit status. Collective.
namespace tutti::app {

/// Runs the operation, checks it, and says what each rank did.
int perform(Job& job, Operation operation, const OperationOptions& options);
int info(Job& job, const JobOptions& options);
int benchmark(Job& job, const BenchOptions& options);

}  // namespace tutti::app
