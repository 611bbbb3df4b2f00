#pragma once

#include "options.hpp"

namespace tutti::app {

/// `tutti hostfile`: prints the host of each rank. Not collective, and without MPI. Returns the
/// exit status.
int hostfile(const HostfileOptions& options);

}  // namespace tutti::app
