#pragma once

#include <memory>
#include <string>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "launch/resolve.hpp"
#include "store/tcp_store.hpp"

namespace tutti::store {

/// The store for `choice` (Init::store): who this process is, where the ranks meet and by which
/// secret, all by the environment and `words`. Collective. `insecure`: by an option; TUTTI_INSECURE
/// says the same. Throws Error.
[[nodiscard]] std::unique_ptr<TcpStore> open(const EnvironmentMap& environment,
                                             const launch::Words& words,
                                             const launch::InitChoice& choice, bool insecure,
                                             Log& log, Deadline deadline);

}  // namespace tutti::store
