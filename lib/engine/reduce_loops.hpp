#pragma once

#include "reduce_format.hpp"
#include "reduce_kernels.hpp"

/// Operators on values, and the loops over elements. The last elements, too few for a vector, go
/// through a vector with zeros behind them, so that they see the same instructions as all others.
/// A loop adds or multiplies and never both, so there is nothing that a compiler could contract to
/// a fused multiplication and addition (but in averages of 16-bit floats, whose products are
/// exact), and each lane is one element, so nothing is reassociated.
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
struct Smaller {
  template <class V>
  static V apply(V a, V b) {
    return b < a ? b : a;
  }
};
struct Larger {
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

/// The first `elements` of a value; `from` ends behind them.
template <class Format>
typename Format::Value load_some(const std::byte* from, std::size_t elements) {
  std::byte channel[Format::bytes] = {};
  std::memcpy(channel, from, elements * (Format::bytes / Format::lanes));
  return Format::load(channel);
}

template <class Format>
void store_some(std::byte* to, typename Format::Value value, std::size_t elements) {
  std::byte channel[Format::bytes];
  Format::store(channel, value);
  std::memcpy(to, channel, elements * (Format::bytes / Format::lanes));
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

/// The weight of one of `ranks` in an average: a power of two, at most half of 1 / ranks, so that a
/// sum of finite numbers stays finite with all that it is rounded up.
template <class Number>
Number weight_of(std::size_t ranks) {
  Number weight = 1;
  if (ranks > 1) weight = weight / 2;
  for (std::size_t powers = 1; powers < ranks; powers *= 2) weight = weight / 2;
  return weight;
}

/// What `combine` makes of the parts: their sum, or their average before it rounds; weighed where
/// the sum may overflow.
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

/// Some of the parts, combined in a run of their own: more streams than this at once and the
/// processor no longer fetches ahead, or the parts throw each other out of its first cache.
constexpr std::size_t group_parts = 8;
/// Bytes of a part that are done with all groups before the next bytes are: the sums between two
/// groups, at most twice as long, stay in the first cache.
constexpr std::size_t block_bytes = 4096;

/// Parts `first` to `end` of all, at some place within a block.
struct Group {
  const std::byte* parts;  // there in part 0
  std::size_t stride_bytes;
  std::size_t first;
  std::size_t end;
  std::size_t all;
  float weight;  // of a part, in an average
};

/// `columns` vectors that stand side by side in each part; within a group their sums stay in
/// registers, between groups they lie in `sums`.
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
  const float weight = finish == Finish::weigh ? weight_of<float>(part_count) : 1;
  while (elements >= Format::lanes) {
    constexpr std::size_t most = block_bytes / Format::bytes;
    const auto whole = elements / Format::lanes;
    const auto vectors = whole < most ? whole : most;
    combine_block<Format, Op, finish>(to, parts, stride_bytes, part_count, weight, vectors);
    to += vectors * Format::bytes;
    parts += vectors * Format::bytes;
    elements -= vectors * Format::lanes;
  }
  if (elements == 0) return;
  // By way of a whole vector, so that `loaded` sees these elements, too.
  std::byte channel[Format::bytes] = {};
  const auto some = [&channel, elements, weight](const std::byte* from) {
    std::memcpy(channel, from, elements * (Format::bytes / Format::lanes));
    return loaded<Format, finish>(channel, weight);
  };
  auto value = some(parts);
  for (std::size_t part = 1; part < part_count; ++part) {
    value = Op::apply(value, some(parts + part * stride_bytes));
  }
  store_some<Format>(to, finished<Format, finish>(value, part_count, weight), elements);
}

/// A function of floats, by the defaults of IEEE 754. A call that is not inlined, so that nothing
/// is computed before the thread is set so.
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
void weigh_floats(std::byte* to, const std::byte* from, std::size_t count, int ranks) {
  const auto weight =
      Format::splat(weight_of<typename Format::Number>(static_cast<std::size_t>(ranks)));
  while (count >= Format::lanes) {
    Format::store(to, Format::load(from) * weight);
    to += Format::bytes;
    from += Format::bytes;
    count -= Format::lanes;
  }
  if (count == 0) return;
  store_some<Format>(to, load_some<Format>(from, count) * weight, count);
}

/// The average of finite numbers is finite, although the sum may have been rounded up.
template <class Format>
typename Format::Value average_of(typename Format::Value sum, typename Format::Value divisor) {
  const auto most = Format::splat(Format::most);
  const auto average = sum / divisor;
  const auto below = average > most ? most : average;
  const auto within = below < -most ? -most : below;
  const auto is_finite = sum - sum == 0;  // NOLINT(misc-redundant-expression): or NaN
  return is_finite ? within : average;
}

template <class Format>
void divide_weighed(std::byte* buffer, std::size_t count, int ranks) {
  using Number = typename Format::Number;
  const auto divisor = Format::splat(static_cast<Number>(ranks) *
                                     weight_of<Number>(static_cast<std::size_t>(ranks)));
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

/// `Wide` holds T and `ranks`, and its quotients, cut toward zero, are exact: of up to 32 bits an
/// f64 does, and divides in vectors.
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
