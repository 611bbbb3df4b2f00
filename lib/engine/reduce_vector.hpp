#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// Vectors of one instruction set, in the vector extensions of GCC and Clang.
///
/// `Isa` is a class in the unnamed namespace of an instruction set's own source file
/// (`reduce_avx2.cpp` is one) with
///
///     static constexpr std::size_t width;   // bytes of a vector
///     using Halves = …;                     // the format of f16, see reduce_format.hpp
///
/// All functions of this header and of its includers are templates of such a class or its vectors,
/// and call only each other, not even the standard library: the linker keeps one copy of an inline
/// function that several files share, perhaps the one that needs the newest processor.
namespace tutti::engine::vector {

#ifdef __FAST_MATH__
#error "reductions must find NaN and keep the order of operations: compile without -ffast-math"
#endif

template <class Isa, class T>
struct Lanes {
  using Type [[gnu::vector_size(Isa::width)]] = T;
};
template <class Isa, class T>
using Vector = typename Lanes<Isa, T>::Type;

template <class V>
V load(const std::byte* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}

template <class V>
void store(std::byte* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

/// Reinterprets the bits as another type.
template <class To, class From>
To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}

/// `value` in every lane.
template <class V, class T>
V splat(T value) {
  V result;
  for (std::size_t i = 0; i < sizeof(V) / sizeof(T); ++i) result[i] = value;
  return result;
}

/// A mask of the lanes that are not NaN.
template <class V>
auto is_number(V value) {
  return value == value;  // NOLINT(misc-redundant-expression): NaN differs from itself
}

/// Two vectors: 16-bit elements, computed in 32 bits.
template <class V>
struct Pair {
  V first;
  V second;
};

// Not friends of Pair: g++ 12 does not compile those for the instruction set of the pragma.
template <class V>
Pair<V> operator+(Pair<V> a, Pair<V> b) {
  return {a.first + b.first, a.second + b.second};
}
template <class V>
Pair<V> operator*(Pair<V> a, Pair<V> b) {
  return {a.first * b.first, a.second * b.second};
}
template <class V>
Pair<V> operator/(Pair<V> a, Pair<V> b) {
  return {a.first / b.first, a.second / b.second};
}
template <class V, class T>
Pair<V> splat_pair(T value) {
  return {splat<V>(value), splat<V>(value)};
}

}  // namespace tutti::engine::vector
