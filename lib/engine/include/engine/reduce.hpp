#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/request.hpp"
#include "tutti/types.hpp"

/// The arithmetic of reductions in host memory.
///
/// All functions here take buffers at any address, and the bits of a result depend on the values
/// alone: not on the position of an element, the length of the buffers, or the machine's
/// instruction set. Integers wrap around. A NaN that arithmetic makes or passes on is the positive
/// quiet one; in min and max NaN wins, and −0 < +0. They compute by the defaults of IEEE 754
/// whatever the thread's control register says, and leave it as it was.
///
/// An average of floats never overflows on the way: each contribution is first weighed by a power
/// of two, which loses nothing but the last bits of the smallest numbers, and the sum is divided by
/// the number of ranks times that weight.
namespace tutti::engine {

/// What the vector code of this machine may use.
enum class InstructionSet : std::uint8_t {
  baseline,  ///< what every processor of the architecture has
  avx2,      ///< x86-64 with AVX2 and F16C
  avx512,    ///< x86-64 with AVX-512 F, BW, DQ and VL, where 512 bits do not slow the processor
};

/// Those that this machine runs, the best last. Never empty.
[[nodiscard]] std::span<const InstructionSet> instruction_sets() noexcept;

/// to[i] = part 0[i] ⊕ part 1[i] ⊕ … in this order, for i below `elements`; part k begins at
/// parts + k * stride_bytes, and there is at least one. `to` may be one of the parts, or lie apart
/// from all of them.
using CombineFunction = void (*)(std::byte* to, const std::byte* parts, std::size_t stride_bytes,
                                 std::size_t part_count, std::size_t elements);

/// The function that combines elements of `type` by `op` (average combines as sum); null where
/// `reducible` says that there is none. 16-bit floats are combined in f32 and rounded each time:
/// for many parts, `combine_function` is the accurate way.
[[nodiscard]] transport::ReduceFunction reduce_function(Type type, Operator op);
/// The same by a given one of `instruction_sets()`.
[[nodiscard]] transport::ReduceFunction reduce_function(Type type, Operator op, InstructionSet set);

/// The function that combines many parts; null where `reducible` says that there is none. Average
/// combines as sum, and `weigh` and `divide` do the rest. Not so for 16-bit floats: they are
/// accumulated in f32, for average weighed and divided there, and rounded once.
[[nodiscard]] CombineFunction combine_function(Type type, Operator op);
/// The same by a given one of `instruction_sets()`.
[[nodiscard]] CombineFunction combine_function(Type type, Operator op, InstructionSet set);

/// Whether `combine_function(type, Operator::average)` divides, so that `divide` must not be called
/// after it.
[[nodiscard]] bool divides_itself(Type type) noexcept;

/// Whether the contributions to an average of this type go through `weigh` before the sum.
[[nodiscard]] bool is_weighed(Type type) noexcept;

/// to[i] = from[i]·w, for i below `count`, where w = 2^-k is at most half of 1 / ranks, and 1 for
/// one rank. `to` may be `from`. Only for types that are weighed.
void weigh(std::byte* to, const std::byte* from, std::size_t count, Type type, int ranks);
/// The same by a given one of `instruction_sets()`.
void weigh(std::byte* to, const std::byte* from, std::size_t count, Type type, int ranks,
           InstructionSet set);

/// buffer[i] /= ranks, for i below `count`, and by w again where the type is weighed: then what is
/// finite stays finite. Integers truncate toward zero, 16-bit floats are divided in f32. Types that
/// are not reducible stay as they are.
void divide(std::byte* buffer, std::size_t count, Type type, int ranks);
void divide(std::byte* buffer, std::size_t count, Type type, int ranks, InstructionSet set);

}  // namespace tutti::engine
