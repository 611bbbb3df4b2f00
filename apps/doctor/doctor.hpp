#pragma once

#include "options.hpp"

namespace tutti::app {

/// Looks at the job and says what is wrong. Collective. Returns the exit status: 3 where the job
/// can't run.
int diagnose(const DoctorOptions& options);

}  // namespace tutti::app
