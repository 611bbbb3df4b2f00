#pragma once

#include <vector>

#include "control/call_history.hpp"
#include "control/data_sockets.hpp"

namespace tutti::control {

/// A rank's answer to a status request.
struct Status {
  Activity activity;
  std::vector<UnacknowledgedData> unacknowledged;
};

}  // namespace tutti::control
