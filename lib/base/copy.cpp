#include "base/copy.hpp"

#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace tutti {

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

#ifdef __x86_64__

namespace {
constexpr std::size_t line = 64;
}

void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  // Up to the first whole line of the destination, and after the last, as usual.
  const auto before = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  if (bytes < before + line) return copy_bytes(to, from, bytes);
  copy_bytes(to, from, before);
  to += before;
  from += before;
  bytes -= before;
  for (; bytes >= line; bytes -= line, to += line, from += line) {
    const auto* const source = reinterpret_cast<const __m128i*>(from);
    auto* const target = reinterpret_cast<__m128i*>(to);
    const auto first = _mm_loadu_si128(source);
    const auto second = _mm_loadu_si128(source + 1);
    const auto third = _mm_loadu_si128(source + 2);
    const auto fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, first);
    _mm_stream_si128(target + 1, second);
    _mm_stream_si128(target + 2, third);
    _mm_stream_si128(target + 3, fourth);
  }
  // These stores are not in the order of the others without it.
  _mm_sfence();
  copy_bytes(to, from, bytes);
}

#else

void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_bytes(to, from, bytes);
}

#endif

}  // namespace tutti
