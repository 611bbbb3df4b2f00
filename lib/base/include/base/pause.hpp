#pragma once

#include <chrono>

namespace tutti {

/// Time for which a thread that waits for ranks on its own core yields before it sleeps. Measured:
/// most waits end within some tens of microseconds, and a wake-up takes as long.
inline constexpr std::chrono::microseconds max_yield_time{200};

/// For spin loops: frees the core's other hardware thread for some cycles.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace tutti
