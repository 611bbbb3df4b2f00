#pragma once

namespace tutti::test {

/// Whether AddressSanitizer or ThreadSanitizer is in this program: it is slow then, what it frees
/// is kept, and mlock() does nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

}  // namespace tutti::test
