// Reduction loops for AVX-512. Called only if the processor has AVX-512 F, BW, DQ and VL.
#ifdef __x86_64__
#include <immintrin.h>

#include "reduce_kernels.hpp"

// Only from here on: code shared with other files must not need AVX-512.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c")
#endif
#include "reduce_table.hpp"

namespace tutti::engine {
namespace {

struct Avx512 {
  static constexpr std::size_t width = 64;
  using Halves = vector::ConvertedHalves<Avx512>;

  // These conversions ignore the denormal mode and round as the operand says. Masked forms with all
  // lanes set, since g++ 12 warns of uninitialised values in the plain ones.
  using Converted = __m512;
  static constexpr __mmask16 all = 0xffff;
  static Converted widened(const std::byte* from) {
    return _mm512_maskz_cvtph_ps(all, vector::load<__m256i>(from));
  }
  static void narrow(std::byte* to, Converted value) {
    vector::store(to,
                  _mm512_maskz_cvtps_ph(all, value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

}  // namespace

Kernels avx512_kernels(Type type, Operator op) {
  return vector::kernels<Avx512>(type, op);
}

Averaging avx512_averaging(Type type) {
  return vector::averaging<Avx512>(type);
}

}  // namespace tutti::engine

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
