#pragma once

#include <cfenv>

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

/// Floating-point modes of a thread, as programs set them.
namespace tutti::test {

enum class FloatMode {
  usual,
  flushing,  ///< denormal numbers are treated as zero, as with -ffast-math
  upward,    ///< rounds up
  trapping,  ///< SIGFPE on IEEE 754 exceptions, as after feenableexcept()
};

/// Sets this thread's mode. The destructor restores the previous one.
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

  /// Whether this thread's mode is unchanged.
  [[nodiscard]] bool are_as_set() const {
    return controls() == set_;
  }

 private:
  static unsigned controls() {
#ifdef __x86_64__
    return _mm_getcsr() & ~0x3fU;  // without the exception flags
#else
    return static_cast<unsigned>(std::fegetround()) | static_cast<unsigned>(fegetexcept()) << 16;
#endif
  }

  std::fenv_t before_{};
  unsigned set_ = 0;
};

}  // namespace tutti::test
