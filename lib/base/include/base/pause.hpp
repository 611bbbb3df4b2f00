#pragma once

#include <chrono>

namespace tutti {

/// Whoever waits for ranks that share its core gives the core away for so long before it sleeps.
/// Measured: they mostly come within some tens of microseconds, and a wake-up takes as long.
inline constexpr std::chrono::microseconds longest_yielding{200};

/// Between two looks of a loop that spins: leaves the core's other half in peace for some cycles.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace tutti
