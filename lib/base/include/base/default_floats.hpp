#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace tutti {

/// For its lifetime this thread uses the IEEE 754 defaults: round to nearest, denormal numbers
/// kept, exceptions masked; the destructor restores the control register. A program may have
/// changed it (-ffast-math, feenableexcept()), possibly on one rank only.
/// Reading the register takes some cycles; it is written only if it differs. Always inlined:
/// reduction loops are compiled for several instruction sets and must not share functions.
class DefaultFloats {
 public:
  [[gnu::always_inline]] DefaultFloats() noexcept {
#if defined(__x86_64__)
    before_ = __builtin_ia32_stmxcsr();
    differs_ = (before_ & controls) != masked;
    if (differs_) __builtin_ia32_ldmxcsr(masked);
#elif defined(__aarch64__)
    asm volatile("mrs %0, fpcr" : "=r"(before_) : : "memory");
    differs_ = before_ != 0;
    if (differs_) asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}) : "memory");
#else
    differs_ = std::fegetenv(&before_) == 0 && std::fesetenv(FE_DFL_ENV) == 0;
#endif
  }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;
  [[gnu::always_inline]] ~DefaultFloats() {
    if (!differs_) return;
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(before_);
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" : : "r"(before_) : "memory");
#else
    static_cast<void>(std::fesetenv(&before_));
#endif
  }

 private:
#if defined(__x86_64__)
  static constexpr unsigned masked = 0x1f80;
  static constexpr unsigned controls = 0xffc0;  ///< all but the flags
  unsigned before_ = masked;
#elif defined(__aarch64__)
  std::uint64_t before_ = 0;
#else
  std::fenv_t before_{};
#endif
  bool differs_ = false;
};

}  // namespace tutti
