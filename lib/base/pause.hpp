#pragma once

namespace tutti {

/// Between two looks of a loop that spins: leaves the core's other half in peace for some cycles.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace tutti
