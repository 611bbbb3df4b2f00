#pragma once

#include "base/quiet_thread.hpp"

namespace tutti {

/// This code stays in memory until the process ends, also where a plugin that contains it is
/// closed by dlclose().
void keep_mapped() noexcept;

/// A thread that nobody waits for, and that may still run when everything else of this library has
/// ended. Throws Error{system} where no thread can be started.
template <class Body>
void start_abandoned_thread(const char* purpose, Body body) {
  keep_mapped();
  start_quiet_thread(purpose, std::move(body)).detach();
}

}  // namespace tutti
