#pragma once

#include "job.hpp"
#include "options.hpp"

/// One function a subcommand, each in the file of its name: the whole body, on one rank. Returns
/// the exit status.
namespace tutti::app {

int fan_out(Job& job, const OperationOptions& options);
int broadcast(Job& job, const OperationOptions& options);
int all_reduce(Job& job, const OperationOptions& options);
int send_recv(Job& job, const OperationOptions& options);
int barrier(Job& job, const OperationOptions& options);
int info(Job& job, const OperationOptions& options);

}  // namespace tutti::app
