#pragma once

#include <vector>

#include "control/call_history.hpp"
#include "control/data_sockets.hpp"

namespace tutti::control {

/// What a rank answers when it is asked how far it is.
struct Status {
  Activity activity;
  std::vector<UnacknowledgedData> lost;
};

}  // namespace tutti::control
