#pragma once

#include "engine/reduce_format.hpp"
#include "engine/reduce_kernels.hpp"

/// Operators on values, and the loops over elements. The last elements, too few for a vector, go
/// through a vector with zeros behind them, so that they see the same instructions as all others.
/// A loop adds or multiplies and never both, so there is nothing that a compiler could contract to
/// a fused multiplication and addition, and each lane is one element, so nothing is reassociated.
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
  std::byte room[Format::bytes] = {};
  std::memcpy(room, from, elements * (Format::bytes / Format::lanes));
  return Format::load(room);
}

template <class Format>
void store_some(std::byte* to, typename Format::Value value, std::size_t elements) {
  std::byte room[Format::bytes];
  Format::store(room, value);
  std::memcpy(to, room, elements * (Format::bytes / Format::lanes));
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

/// What `combine` does at the end, before it rounds.
enum class Finish { nothing, divide };

template <class Format, Finish finish>
typename Format::Value finished(typename Format::Value value, std::size_t part_count) {
  if constexpr (finish == Finish::divide) {
    return value / Format::splat(static_cast<typename Format::Number>(part_count));
  } else {
    return value;
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
};

/// `columns` vectors that stand side by side in each part; within a group their sums stay in
/// registers, between groups they lie in `sums`.
template <class Format, class Op, Finish finish, std::size_t columns>
void combine_columns(std::byte* to, typename Format::Value* sums, const Group& group) {
  typename Format::Value values[columns];
  const auto* from = group.parts + group.first * group.stride_bytes;
  for (std::size_t c = 0; c < columns; ++c) {
    const auto value = Format::load(from + c * Format::bytes);
    values[c] = group.first == 0 ? value : Op::apply(sums[c], value);
  }
  for (std::size_t part = group.first + 1; part < group.end; ++part) {
    from += group.stride_bytes;
    for (std::size_t c = 0; c < columns; ++c) {
      values[c] = Op::apply(values[c], Format::load(from + c * Format::bytes));
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    if (group.end == group.all) {
      Format::store(to + c * Format::bytes, finished<Format, finish>(values[c], group.all));
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
                   std::size_t part_count, std::size_t vectors) {
  typename Format::Value sums[block_bytes / Format::bytes];
  for (std::size_t first = 0; first < part_count; first += group_parts) {
    const auto left = part_count - first;
    const auto end = first + (left < group_parts ? left : group_parts);
    combine_group<Format, Op, finish>(to, sums, {parts, stride_bytes, first, end, part_count},
                                      vectors);
  }
}

template <class Format, class Op, Finish finish = Finish::nothing>
void combine(std::byte* to, const std::byte* parts, std::size_t stride_bytes,
             std::size_t part_count, std::size_t elements) {
  while (elements >= Format::lanes) {
    constexpr std::size_t most = block_bytes / Format::bytes;
    const auto whole = elements / Format::lanes;
    const auto vectors = whole < most ? whole : most;
    combine_block<Format, Op, finish>(to, parts, stride_bytes, part_count, vectors);
    to += vectors * Format::bytes;
    parts += vectors * Format::bytes;
    elements -= vectors * Format::lanes;
  }
  if (elements == 0) return;
  auto value = load_some<Format>(parts, elements);
  for (std::size_t part = 1; part < part_count; ++part) {
    value = Op::apply(value, load_some<Format>(parts + part * stride_bytes, elements));
  }
  store_some<Format>(to, finished<Format, finish>(value, part_count), elements);
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
