#pragma once

namespace tutti::test {

/// True if the program runs under AddressSanitizer or ThreadSanitizer: it is slower, freed memory
/// is kept, and mlock() has no effect.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

}  // namespace tutti::test
