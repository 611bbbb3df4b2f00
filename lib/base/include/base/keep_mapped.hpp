#pragma once

#include "base/quiet_thread.hpp"

namespace tutti {

/// Keeps this code mapped until the process ends, even if a plugin that contains it is closed with
/// dlclose().
void keep_mapped() noexcept;

/// Starts a detached thread that may outlive the library's other state. Throws Error{system} if no
/// thread can be started.
template <class Body>
void start_abandoned_thread(const char* purpose, Body body) {
  keep_mapped();
  start_quiet_thread(purpose, std::move(body)).detach();
}

}  // namespace tutti
