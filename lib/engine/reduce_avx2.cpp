// Reduction loops for AVX2 and F16C. Called only if the processor has both.
#ifdef __x86_64__
#include <immintrin.h>

#include "reduce_kernels.hpp"

// Only from here on: code shared with other files must not need AVX2.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif
#include "reduce_table.hpp"

namespace tutti::engine {
namespace {

struct Avx2 {
  static constexpr std::size_t width = 32;
  using Halves = vector::ConvertedHalves<Avx2>;

  // These conversions ignore the denormal mode and round as the operand says.
  using Converted = __m256;
  static Converted widened(const std::byte* from) {
    return _mm256_cvtph_ps(vector::load<__m128i>(from));
  }
  static void narrow(std::byte* to, Converted value) {
    vector::store(to, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

}  // namespace

Kernels avx2_kernels(Type type, Operator op) {
  return vector::kernels<Avx2>(type, op);
}

Averaging avx2_averaging(Type type) {
  return vector::averaging<Avx2>(type);
}

}  // namespace tutti::engine

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
