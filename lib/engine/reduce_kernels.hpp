#pragma once

#include "base/default_floats.hpp"
#include "engine/reduce.hpp"

/// The loops of `reduce.hpp`, compiled once per instruction set in a file of its own.
namespace tutti::engine {

struct Kernels {
  transport::ReduceFunction reduce = nullptr;
  CombineFunction combine = nullptr;
};

/// to[i] = from[i] · factor.
using WeighFunction = void (*)(std::byte* to, const std::byte* from, std::size_t count,
                               double factor);
/// buffer[i] /= ranks. If the type is weighed, the sum was.
using DivideFunction = void (*)(std::byte* buffer, std::size_t count, int ranks);

/// Functions before a premultiplied sum and an average, and after an average.
struct Averaging {
  WeighFunction weigh = nullptr;
  DivideFunction divide = nullptr;
};

// All return null functions for combinations that do not exist.
[[nodiscard]] Kernels baseline_kernels(Type type, Operator op);
[[nodiscard]] Averaging baseline_averaging(Type type);
#ifdef __x86_64__
[[nodiscard]] Kernels avx2_kernels(Type type, Operator op);
[[nodiscard]] Averaging avx2_averaging(Type type);
[[nodiscard]] Kernels avx512_kernels(Type type, Operator op);
[[nodiscard]] Averaging avx512_averaging(Type type);
#endif

}  // namespace tutti::engine
