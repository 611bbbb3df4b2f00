#pragma once

#include <cfenv>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/// How a thread computes floats, as programs set it.
namespace tutti::test {

enum class FloatMode {
  usual,
  flushing,  ///< denormal numbers are taken for zero, as after -ffast-math
  upward,    ///< rounds up
  trapping,  ///< SIGFPE at whatever IEEE 754 calls an exception, as after feenableexcept()
};

/// Sets this thread's mode; the destructor sets what was before.
class FloatControls {
 public:
  explicit FloatControls(FloatMode mode) {
    std::fegetenv(&before_);
#ifdef __x86_64__
    if (mode == FloatMode::flushing) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
    if (mode == FloatMode::upward) std::fesetround(FE_UPWARD);
    if (mode == FloatMode::trapping) {
      std::feclearexcept(FE_ALL_EXCEPT);
      feenableexcept(FE_ALL_EXCEPT);
    }
    set_ = controls();
  }
  FloatControls(const FloatControls&) = delete;
  FloatControls& operator=(const FloatControls&) = delete;
  ~FloatControls() {
    std::fesetenv(&before_);
  }

  /// Whether this thread still computes as it was set to.
  [[nodiscard]] bool are_as_set() const {
    return controls() == set_;
  }

 private:
  static unsigned controls() {
#ifdef __x86_64__
    return _mm_getcsr() & ~0x3fU;  // without the flags
#else
    return static_cast<unsigned>(std::fegetround()) | static_cast<unsigned>(fegetexcept()) << 16;
#endif
  }

  std::fenv_t before_{};
  unsigned set_ = 0;
};

}  // namespace tutti::test
