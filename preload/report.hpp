#pragma once

#include <string>

#include "nccl_communicator.hpp"

namespace tutti::preload {

/// The table of a communicator's calls: served by the direct path, and handed on to NCCL with the
/// reasons.
[[nodiscard]] std::string report_text(const NcclCommunicator& communicator);
/// On standard error, at once.
void print_report(const NcclCommunicator& communicator);

}  // namespace tutti::preload
