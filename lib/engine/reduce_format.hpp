#pragma once

#include "reduce_vector.hpp"

/// Formats: the layout of elements in memory, and the values that they are computed as. Each has
///
///     using Value;                         // a vector, or a pair of them
///     static constexpr std::size_t lanes;  // elements of a Value, complex ones of two parts
///     static constexpr std::size_t bytes;  // of those elements in memory: always one vector
///     static Value load(const std::byte*);
///     static void store(std::byte*, Value);
///
/// formats of floats also have, for division,
///
///     using Number;                        // what the elements are computed as
///     static Value splat(Number);          // that number in every lane
///
/// and those of f32 and f64 have, for averages that do not overflow,
///
///     static constexpr Number max;         // the largest finite number
namespace tutti::engine::vector {

template <class Isa, class T>
struct Integers {
  using Value = Vector<Isa, T>;
  static constexpr std::size_t bytes = Isa::width;
  static constexpr std::size_t lanes = bytes / sizeof(T);

  static Value load(const std::byte* from) { return vector::load<Value>(from); }
  static void store(std::byte* to, Value value) { vector::store(to, value); }
};

/// Arithmetic on f32 and f64.
template <class Isa, class T>
struct Floats {
  using Value = Vector<Isa, T>;
  using Number = T;
  static constexpr std::size_t bytes = Isa::width;
  static constexpr std::size_t lanes = bytes / sizeof(T);
  static constexpr Number max =
      static_cast<Number>(sizeof(T) == sizeof(float) ? __FLT_MAX__ : __DBL_MAX__);

  static Value splat(Number number) { return vector::splat<Value>(number); }
  static Value load(const std::byte* from) { return vector::load<Value>(from); }
  static void store(std::byte* to, Value value) {
    // Which of two NaN propagates depends on the operand order that the compiler chooses.
    const auto quiet = splat(static_cast<T>(__builtin_nanf("")));
    vector::store<Value>(to, is_number(value) ? value : quiet);
  }
};

/// Complex numbers of f32 and f64.
template <class Isa, class T>
struct Complex : Floats<Isa, T> {
  static constexpr std::size_t lanes = Floats<Isa, T>::lanes / 2;
};

template <class Isa>
using Words = Vector<Isa, std::int32_t>;
template <class Isa>
using Singles = Vector<Isa, float>;

/// bf16, computed in f32. Elements at even and at odd positions make one vector each, because a
/// mask or a shift extracts them.
template <class Isa>
struct Bfloats {
  using Value = Pair<Singles<Isa>>;
  using Number = float;
  static constexpr std::size_t bytes = Isa::width;
  static constexpr std::size_t lanes = bytes / 2;

  static Value splat(Number number) { return splat_pair<Singles<Isa>>(number); }
  static Value load(const std::byte* from) {
    const auto both = vector::load<Words<Isa>>(from);
    return {bits_as<Singles<Isa>>(both << 16), bits_as<Singles<Isa>>(both & ~0xffff)};
  }
  static void store(std::byte* to, Value value) {
    const auto low = bits_as<Vector<Isa, std::uint32_t>>(rounded(value.first)) >> 16;
    vector::store<Words<Isa>>(to, bits_as<Words<Isa>>(low) | (rounded(value.second) & ~0xffff));
  }

 private:
  /// Rounds to nearest, ties to even, into the upper 16 bits.
  static Words<Isa> rounded(Singles<Isa> value) {
    const auto bits = bits_as<Vector<Isa, std::uint32_t>>(value);
    const auto up = bits_as<Words<Isa>>(bits + 0x7fff + ((bits >> 16) & 1));
    const auto nan = vector::splat<Words<Isa>>(0x7fc00000);
    return is_number(value) ? up : nan;
  }
};

/// f16, computed in f32 by plain arithmetic; even and odd positions as in Bfloats. Exact and
/// rounded to nearest, ties to even, even if the processor treats denormal numbers as zero.
template <class Isa>
struct PlainHalves {
  using Value = Pair<Singles<Isa>>;
  using Number = float;
  static constexpr std::size_t bytes = Isa::width;
  static constexpr std::size_t lanes = bytes / 2;

  static Value splat(Number number) { return splat_pair<Singles<Isa>>(number); }
  static Value load(const std::byte* from) {
    const auto both = vector::load<Vector<Isa, std::uint32_t>>(from);
    return {widened(bits_as<Words<Isa>>(both & 0xffff)), widened(bits_as<Words<Isa>>(both >> 16))};
  }
  static void store(std::byte* to, Value value) {
    vector::store<Words<Isa>>(to, narrowed(value.first) | (narrowed(value.second) << 16));
  }

 private:
  // An f16 has 10 fraction bits, an f32 has 23; their exponent biases differ by 112.
  static constexpr int rebias = 112 << 23;
  static constexpr int infinity = 0x7f800000;
  static constexpr int min_normal = 113 << 23;  // 2^-14, as f32

  static Singles<Isa> widened(Words<Isa> half) {
    const auto sign = (half & 0x8000) << 16;
    const auto magnitude = half & 0x7fff;
    const auto normal = (magnitude << 13) + rebias;
    // Infinities and NaN keep the highest exponent.
    const auto large = normal + (bits_as<Words<Isa>>(magnitude >= 0x7c00) & rebias);
    // A denormal f16 is a multiple of 2^-24.
    const auto small = bits_as<Words<Isa>>(__builtin_convertvector(magnitude, Singles<Isa>) *
                                           vector::splat<Singles<Isa>>(0x1p-24F));
    return bits_as<Singles<Isa>>((magnitude < 0x0400 ? small : large) | sign);
  }

  static Words<Isa> narrowed(Singles<Isa> value) {
    const auto bits = bits_as<Words<Isa>>(value);
    const auto sign = (bits >> 16) & 0x8000;
    const auto magnitude = bits & 0x7fffffff;
    const auto nan = vector::splat<Words<Isa>>(0x7e00);
    // A carry out of the fraction increments the exponent, up to infinity.
    const auto limit = vector::splat<Words<Isa>>(0x477fffff);
    const auto finite = magnitude > limit ? limit : magnitude;
    const auto normal = (finite + 0xfff + ((finite >> 13) & 1) - rebias) >> 13;
    // The last bit of 0.5 is 2^-24, the unit of denormal f16: the addition rounds to it.
    const auto half = vector::splat<Singles<Isa>>(0.5F);
    const auto small =
        bits_as<Words<Isa>>(bits_as<Singles<Isa>>(finite) + half) - bits_as<Words<Isa>>(half);
    const auto number = finite < min_normal ? small : normal;
    return magnitude > infinity ? nan : number | sign;
  }
};

/// f16, computed in f32 by the processor's conversions. Isa::widened loads f16 into a vector of
/// f32; Isa::narrow stores them, rounded to nearest, ties to even. The two halves of a vector in
/// memory make one vector each.
template <class Isa>
struct ConvertedHalves {
  using Value = Pair<Singles<Isa>>;
  using Number = float;
  static constexpr std::size_t bytes = Isa::width;
  static constexpr std::size_t lanes = bytes / 2;

  static Value splat(Number number) { return splat_pair<Singles<Isa>>(number); }
  static Value load(const std::byte* from) {
    return {bits_as<Singles<Isa>>(Isa::widened(from)),
            bits_as<Singles<Isa>>(Isa::widened(from + bytes / 2))};
  }
  static void store(std::byte* to, Value value) {
    store_half(to, value.first);
    store_half(to + bytes / 2, value.second);
  }

 private:
  static void store_half(std::byte* to, Singles<Isa> value) {
    const auto nan = vector::splat<Singles<Isa>>(__builtin_nanf(""));
    const Singles<Isa> quiet = is_number(value) ? value : nan;
    Isa::narrow(to, bits_as<typename Isa::Converted>(quiet));
  }
};

/// Floats for min and max, as integers of the same order (−0 < +0), with NaN above all. `reversed`
/// inverts the order, so that min becomes max. `Bits` is the signed integer of the float's size;
/// `infinity` and `quiet` are the bit patterns of those values.
template <class Isa, class Bits, Bits infinity, Bits quiet, bool reversed>
struct OrderedFloats {
  using Value = Vector<Isa, Bits>;
  static constexpr std::size_t bytes = Isa::width;
  static constexpr std::size_t lanes = bytes / sizeof(Bits);

  static Value load(const std::byte* from) {
    const auto bits = vector::load<Value>(from);
    const auto key = reversed ? ~turned(bits) : turned(bits);
    return (bits & magnitude) > splat<Value>(infinity) ? splat<Value>(quiet) : key;
  }
  static void store(std::byte* to, Value key) {
    const auto nan = splat<Value>(quiet);
    if constexpr (reversed) {
      vector::store<Value>(to, key == nan ? nan : turned(~key));
    } else {
      vector::store<Value>(to, turned(key));
    }
  }

 private:
  static constexpr int sign_position = 8 * sizeof(Bits) - 1;
  static constexpr Bits magnitude = static_cast<Bits>(~(Bits{1} << sign_position));

  /// Converts between sign-magnitude and two's complement (−0 becomes −1).
  static Value turned(Value value) { return value ^ ((value >> sign_position) & magnitude); }
};

}  // namespace tutti::engine::vector
