#pragma once

#include "options.hpp"

namespace tutti::app {

/// Checks the job and prints findings. Collective. Returns the exit status: 3 if the job can't run.
int diagnose(const DoctorOptions& options);

}  // namespace tutti::app
