#pragma once

#include "options.hpp"

namespace tutti::app {

/// The dry run of a hostfile: prints which rank goes where. Not collective, and without MPI.
/// Returns the exit status.
int hostfile(const HostfileOptions& options);

}  // namespace tutti::app
