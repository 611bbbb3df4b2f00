#pragma once

#include <gloo/context.h>

#include <chrono>
#include <memory>

#include "tutti/communicator.hpp"

namespace tutti::app::bench {

/// Connects Gloo over TCP between the ranks of `communicator`, on the same networks as tutti's
/// links. Collective. `timeout` is the limit for each of Gloo's operations. Throws Error{system}.
[[nodiscard]] std::shared_ptr<gloo::Context> connect_gloo(Communicator& communicator,
                                                          std::chrono::nanoseconds timeout);

}  // namespace tutti::app::bench
