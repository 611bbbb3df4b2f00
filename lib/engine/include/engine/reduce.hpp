#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/request.hpp"
#include "tutti/types.hpp"

/// Arithmetic of reductions in host memory.
///
/// Buffers may have any alignment. The result depends on the values alone, not on the position of
/// an element, the length of the buffers or the instruction set. Integers wrap around. NaN results
/// are the positive quiet NaN; in min and max NaN wins, and −0 < +0. All functions compute in the
/// default IEEE 754 environment and restore the thread's control register.
///
/// An average of floats does not overflow: each contribution is first scaled by a power of two,
/// which loses only the last bits of the smallest numbers; the sum is then divided by the number of
/// ranks times that weight.
namespace tutti::engine {

/// Instruction sets of the vector code.
enum class InstructionSet : std::uint8_t {
  baseline,  ///< present on every processor of the architecture
  avx2,      ///< x86-64 with AVX2 and F16C
  avx512,    ///< x86-64 with AVX-512 F, BW, DQ and VL, if 512-bit vectors do not lower the core's
             ///< clock
};

/// The sets that this machine supports, the best last. Never empty.
[[nodiscard]] std::span<const InstructionSet> instruction_sets() noexcept;

/// to[i] = part 0[i] ⊕ part 1[i] ⊕ … in this order, for i < `elements`. Part k begins at parts + k
/// * stride_bytes; `part_count` is at least 1. `to` is one of the parts or overlaps none.
using CombineFunction = void (*)(std::byte* to, const std::byte* parts, std::size_t stride_bytes,
                                 std::size_t part_count, std::size_t elements);

/// Returns the function that combines elements of `type` by `op` (average and premultiplied_sum
/// combine as sum), or null
/// unless `reducible`. 16-bit floats are combined in f32 and rounded each time; for many parts
/// `combine_function` is more accurate.
[[nodiscard]] transport::ReduceFunction reduce_function(Type type, Operator op);
/// As above, for one of `instruction_sets()`.
[[nodiscard]] transport::ReduceFunction reduce_function(Type type, Operator op, InstructionSet set);

/// Returns the function that combines many parts, or null unless `reducible`. Average combines as
/// sum; `weigh` and `divide` do the rest. Exception: 16-bit floats are accumulated in f32, for an
/// average also scaled and divided in f32, and rounded once.
[[nodiscard]] CombineFunction combine_function(Type type, Operator op);
/// As above, for one of `instruction_sets()`.
[[nodiscard]] CombineFunction combine_function(Type type, Operator op, InstructionSet set);

/// True if `combine_function(type, Operator::average)` divides; `divide` must not be called after
/// it.
[[nodiscard]] bool divides_itself(Type type) noexcept;

/// True if contributions to an average of this type go through `weigh` before the sum.
[[nodiscard]] bool is_weighed(Type type) noexcept;

/// The weight of a contribution to an average over `ranks` ranks: a power of two, at most half of 1
/// / ranks, and 1 for one rank. With it a sum of finite numbers stays finite despite rounding up.
[[nodiscard]] double average_weight(std::size_t ranks) noexcept;

/// to[i] = from[i]·factor for i < `count`, computed in f64 for f64 and c128, otherwise in f32, and
/// rounded to the type. `to` may be `from`. Leaves `to` unchanged unless the type is a float or
/// complex.
void weigh(std::byte* to, const std::byte* from, std::size_t count, Type type, double factor);
/// As above, for one of `instruction_sets()`.
void weigh(std::byte* to, const std::byte* from, std::size_t count, Type type, double factor,
           InstructionSet set);

/// buffer[i] /= ranks for i < `count`, and divides by the weight again if the type is weighed;
/// finite values stay finite. Integers truncate toward zero; 16-bit floats are divided in f32.
/// Leaves types that are not reducible unchanged.
void divide(std::byte* buffer, std::size_t count, Type type, int ranks);
void divide(std::byte* buffer, std::size_t count, Type type, int ranks, InstructionSet set);

}  // namespace tutti::engine
