#pragma once

#include <memory>
#include <string>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "launch/resolve.hpp"
#include "store/tcp_store.hpp"

namespace tutti::store {

/// Opens the store for `choice` (Init::store); rank, size, address and secret come from the
/// environment and `words`. Collective. `insecure`: set by an option, equivalent to TUTTI_INSECURE.
/// Throws Error.
[[nodiscard]] std::unique_ptr<TcpStore> open(const EnvironmentMap& environment,
                                             const launch::Words& words,
                                             const launch::InitChoice& choice, bool insecure,
                                             Log& log, Deadline deadline);

}  // namespace tutti::store
