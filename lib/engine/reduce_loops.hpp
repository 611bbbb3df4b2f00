#pragma once

#include "reduce_format.hpp"
#include "reduce_kernels.hpp"

/// Operators on values, and loops over elements. The last elements, too few for a vector, are
/// padded with zeros and use the same vector instructions. Nothing is contracted to fused
/// multiply-add (lib/engine/meson.build), which not every instruction set has. Each lane is one
/// element, or a part of a complex one, so nothing is reassociated.
namespace tutti::engine::vector {

struct Sum {
  template <class V>
  static V apply(V a, V b) {
    return a + b;
  }
};
struct Product {
  template <class V>
  static V apply(V a, V b) {
    return a * b;
  }
};
struct Min {
  template <class V>
  static V apply(V a, V b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <class V>
  static V apply(V a, V b) {
    return a < b ? b : a;
  }
};
struct And {
  template <class V>
  static V apply(V a, V b) {
    return a & b;
  }
};
struct Or {
  template <class V>
  static V apply(V a, V b) {
    return a | b;
  }
};
struct Xor {
  template <class V>
  static V apply(V a, V b) {
    return a ^ b;
  }
};
/// Of numbers as truth values: 1 or 0 in every lane.
template <class Bitwise>
struct Logical {
  template <class V>
  static V apply(V a, V b) {
    return V{} - bits_as<V>(Bitwise::apply(a != V{}, b != V{}));
  }
};
/// Keeps products apart from the sums that they go into: GCC 12 makes fused multiply-add of them
/// with AVX-512 in spite of -ffp-contract=off.
template <class V>
void keep_apart(V& products) {
#if defined(__x86_64__) && !defined(__clang__)
  asm("" : "+x"(products));
#else
  static_cast<void>(products);
#endif
}
/// Of vectors that hold real and imaginary parts by turns.
struct ComplexProduct {
  template <class V>
  static V apply(V a, V b) {
    V with_real{};
    V with_imaginary{};
    for (std::size_t i = 0; i < sizeof(V) / sizeof(a[0]); i += 2) {
      with_real[i] = a[i] * b[i];
      with_real[i + 1] = a[i] * b[i + 1];
      with_imaginary[i] = a[i + 1] * b[i + 1];
      with_imaginary[i + 1] = a[i + 1] * b[i];
    }
    keep_apart(with_real);
    keep_apart(with_imaginary);
    V result{};
    for (std::size_t i = 0; i < sizeof(V) / sizeof(a[0]); i += 2) {
      result[i] = with_real[i] - with_imaginary[i];
      result[i + 1] = with_real[i + 1] + with_imaginary[i + 1];
    }
    return result;
  }
};

/// Loads the first `elements` of a value; memory behind them is not read.
template <class Format>
typename Format::Value load_some(const std::byte* from, std::size_t elements) {
  std::byte padded[Format::bytes] = {};
  std::memcpy(padded, from, elements * (Format::bytes / Format::lanes));
  return Format::load(padded);
}

template <class Format>
void store_some(std::byte* to, typename Format::Value value, std::size_t elements) {
  std::byte padded[Format::bytes];
  Format::store(padded, value);
  std::memcpy(to, padded, elements * (Format::bytes / Format::lanes));
}

template <class Format, class Op>
void reduce(std::byte* to, const std::byte* a, const std::byte* b, std::size_t elements) {
  while (elements >= Format::lanes) {
    Format::store(to, Op::apply(Format::load(a), Format::load(b)));
    to += Format::bytes;
    a += Format::bytes;
    b += Format::bytes;
    elements -= Format::lanes;
  }
  if (elements == 0) return;
  store_some<Format>(to, Op::apply(load_some<Format>(a, elements), load_some<Format>(b, elements)),
                     elements);
}

/// What `combine` returns: the sum, or the average before it is rounded; weighed if the sum may
/// overflow.
enum class Finish { nothing, divide, weigh };

template <class Format, Finish finish>
typename Format::Value loaded(const std::byte* from, float weight) {
  if constexpr (finish == Finish::weigh) {
    return Format::load(from) * Format::splat(weight);
  } else {
    return Format::load(from);
  }
}

template <class Format, Finish finish>
typename Format::Value finished(typename Format::Value value, std::size_t part_count,
                                float weight) {
  if constexpr (finish == Finish::nothing) {
    return value;
  } else {
    return value / Format::splat(static_cast<typename Format::Number>(part_count) * weight);
  }
}

/// Parts that one pass combines. With more streams at once the processor stops prefetching, or the
/// parts evict each other from the L1 cache.
constexpr std::size_t group_parts = 8;
/// Bytes of a part that all groups process before the next bytes, so that the intermediate sums (at
/// most twice as long) stay in the L1 cache.
constexpr std::size_t block_bytes = 4096;

/// Parts `first` to `end` out of `all`, at one offset within a block.
struct Group {
  const std::byte* parts;  // at that offset of part 0
  std::size_t stride_bytes;
  std::size_t first;
  std::size_t end;
  std::size_t all;
  float weight;  // of a part, in an average
};

/// Combines `columns` adjacent vectors of each part. Within a group their sums stay in registers,
/// between groups in `sums`.
template <class Format, class Op, Finish finish, std::size_t columns>
void combine_columns(std::byte* to, typename Format::Value* sums, const Group& group) {
  typename Format::Value values[columns];
  const auto* from = group.parts + group.first * group.stride_bytes;
  for (std::size_t c = 0; c < columns; ++c) {
    const auto value = loaded<Format, finish>(from + c * Format::bytes, group.weight);
    values[c] = group.first == 0 ? value : Op::apply(sums[c], value);
  }
  for (std::size_t part = group.first + 1; part < group.end; ++part) {
    from += group.stride_bytes;
    for (std::size_t c = 0; c < columns; ++c) {
      values[c] =
          Op::apply(values[c], loaded<Format, finish>(from + c * Format::bytes, group.weight));
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    if (group.end == group.all) {
      Format::store(to + c * Format::bytes,
                    finished<Format, finish>(values[c], group.all, group.weight));
    } else {
      sums[c] = values[c];
    }
  }
}

template <class Format, class Op, Finish finish>
void combine_group(std::byte* to, typename Format::Value* sums, Group group, std::size_t vectors) {
  constexpr std::size_t columns = 4;
  while (vectors >= columns) {
    combine_columns<Format, Op, finish, columns>(to, sums, group);
    to += columns * Format::bytes;
    sums += columns;
    group.parts += columns * Format::bytes;
    vectors -= columns;
  }
  while (vectors > 0) {
    combine_columns<Format, Op, finish, 1>(to, sums, group);
    to += Format::bytes;
    ++sums;
    group.parts += Format::bytes;
    --vectors;
  }
}

template <class Format, class Op, Finish finish>
void combine_block(std::byte* to, const std::byte* parts, std::size_t stride_bytes,
                   std::size_t part_count, float weight, std::size_t vectors) {
  typename Format::Value sums[block_bytes / Format::bytes];
  for (std::size_t first = 0; first < part_count; first += group_parts) {
    const auto left = part_count - first;
    const auto end = first + (left < group_parts ? left : group_parts);
    combine_group<Format, Op, finish>(
        to, sums, {parts, stride_bytes, first, end, part_count, weight}, vectors);
  }
}

template <class Format, class Op, Finish finish = Finish::nothing>
void combine(std::byte* to, const std::byte* parts, std::size_t stride_bytes,
             std::size_t part_count, std::size_t elements) {
  const float weight = finish == Finish::weigh ? static_cast<float>(average_weight(part_count)) : 1;
  while (elements >= Format::lanes) {
    constexpr std::size_t limit = block_bytes / Format::bytes;
    const auto whole = elements / Format::lanes;
    const auto vectors = whole < limit ? whole : limit;
    combine_block<Format, Op, finish>(to, parts, stride_bytes, part_count, weight, vectors);
    to += vectors * Format::bytes;
    parts += vectors * Format::bytes;
    elements -= vectors * Format::lanes;
  }
  if (elements == 0) return;
  // Through a whole vector, so that `loaded` handles these elements, too.
  std::byte padded[Format::bytes] = {};
  const auto some = [&padded, elements, weight](const std::byte* from) {
    std::memcpy(padded, from, elements * (Format::bytes / Format::lanes));
    return loaded<Format, finish>(padded, weight);
  };
  auto value = some(parts);
  for (std::size_t part = 1; part < part_count; ++part) {
    value = Op::apply(value, some(parts + part * stride_bytes));
  }
  store_some<Format>(to, finished<Format, finish>(value, part_count, weight), elements);
}

/// Calls a function of floats in the default IEEE 754 environment. Not inlined, so that the
/// compiler moves no computation before the mode is set.
template <auto function>
struct ByDefault;
template <class... Arguments, void (*function)(Arguments...)>
struct ByDefault<function> {
  static void call(Arguments... arguments) {
    const DefaultFloats defaults;
    apart(arguments...);
  }
  [[gnu::noinline]] static void apart(Arguments... arguments) { function(arguments...); }
};

template <class Format>
void weigh_floats(std::byte* to, const std::byte* from, std::size_t count, double factor) {
  const auto weight = Format::splat(static_cast<typename Format::Number>(factor));
  while (count >= Format::lanes) {
    Format::store(to, Format::load(from) * weight);
    to += Format::bytes;
    from += Format::bytes;
    count -= Format::lanes;
  }
  if (count == 0) return;
  store_some<Format>(to, load_some<Format>(from, count) * weight, count);
}

/// The average of finite numbers is finite, even if the sum was rounded up.
template <class Format>
typename Format::Value average_of(typename Format::Value sum, typename Format::Value divisor) {
  const auto limit = Format::splat(Format::max);
  const auto average = sum / divisor;
  const auto below = average > limit ? limit : average;
  const auto within = below < -limit ? -limit : below;
  const auto is_finite = sum - sum == 0;  // NOLINT(misc-redundant-expression): or NaN
  return is_finite ? within : average;
}

template <class Format>
void divide_weighed(std::byte* buffer, std::size_t count, int ranks) {
  using Number = typename Format::Number;
  const auto divisor =
      Format::splat(static_cast<Number>(ranks) *
                    static_cast<Number>(average_weight(static_cast<std::size_t>(ranks))));
  while (count >= Format::lanes) {
    Format::store(buffer, average_of<Format>(Format::load(buffer), divisor));
    buffer += Format::bytes;
    count -= Format::lanes;
  }
  if (count == 0) return;
  store_some<Format>(buffer, average_of<Format>(load_some<Format>(buffer, count), divisor), count);
}

template <class Format>
void divide_floats(std::byte* buffer, std::size_t count, int ranks) {
  const auto divisor = Format::splat(static_cast<typename Format::Number>(ranks));
  while (count >= Format::lanes) {
    Format::store(buffer, Format::load(buffer) / divisor);
    buffer += Format::bytes;
    count -= Format::lanes;
  }
  if (count == 0) return;
  store_some<Format>(buffer, load_some<Format>(buffer, count) / divisor, count);
}

/// `Wide` represents T and `ranks`, and its quotients truncate exactly. For up to 32 bits f64 does,
/// and it divides in vectors.
template <class Isa, class T, class Wide>
void divide_integers(std::byte* buffer, std::size_t count, int ranks) {
  const auto divisor = static_cast<Wide>(ranks);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, buffer + i * sizeof(T), sizeof(T));
    value = static_cast<T>(static_cast<Wide>(value) / divisor);
    std::memcpy(buffer + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace tutti::engine::vector
