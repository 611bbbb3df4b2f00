#include "base/copy.hpp"

#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace tutti {

#ifdef __x86_64__

namespace {

constexpr std::size_t line = 64;
// About the size from which memcpy uses `rep movsb`.
constexpr std::size_t min_own_bytes = 2048;

/// On AMD Zen 3 and 4, `rep movsb` is many times slower if the destination's offset in its 4 KiB
/// page is up to a cache line above the source's (sourceware.org/bugzilla, glibc bug 30994).
bool is_slow_by_instruction(const std::byte* to, const std::byte* from) {
  const auto behind =
      (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % 4096;
  return behind > 0 && behind < line && __builtin_cpu_is("amd") != 0;
}

/// Copies the whole cache lines, each with four calls of `store`; returns their size in bytes.
template <class Store>
std::size_t copy_lines(std::byte* to, const std::byte* from, std::size_t bytes, Store store) {
  const auto whole = bytes / line * line;
  for (std::size_t at = 0; at < whole; at += line) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + at);
    auto* const target = reinterpret_cast<__m128i*>(to + at);
    const auto first = _mm_loadu_si128(source);
    const auto second = _mm_loadu_si128(source + 1);
    const auto third = _mm_loadu_si128(source + 2);
    const auto fourth = _mm_loadu_si128(source + 3);
    store(target, first);
    store(target + 1, second);
    store(target + 2, third);
    store(target + 3, fourth);
  }
  return whole;
}

}  // namespace

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes >= min_own_bytes && is_slow_by_instruction(to, from)) {
    const auto done = copy_lines(
        to, from, bytes, [](__m128i* target, __m128i value) { _mm_storeu_si128(target, value); });
    std::memcpy(to + done, from + done, bytes - done);
    return;
  }
  std::memcpy(to, from, bytes);
}

void stream_piece(std::byte* to, const std::byte* from, std::size_t bytes) {
  // Ordinary copies before the first whole line of the destination and after the last.
  const auto before = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  if (bytes < before + line) return copy_bytes(to, from, bytes);
  copy_bytes(to, from, before);
  to += before;
  from += before;
  bytes -= before;
  const auto done = copy_lines(
      to, from, bytes, [](__m128i* target, __m128i value) { _mm_stream_si128(target, value); });
  copy_bytes(to + done, from + done, bytes - done);
}

/// Non-temporal stores are ordered only by a fence.
void finish_streaming() {
  _mm_sfence();
}

#else

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void stream_piece(std::byte* to, const std::byte* from, std::size_t bytes) {
  copy_bytes(to, from, bytes);
}

void finish_streaming() {}

#endif

void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  stream_piece(to, from, bytes);
  finish_streaming();
}

}  // namespace tutti
