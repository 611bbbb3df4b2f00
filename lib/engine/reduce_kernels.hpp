#pragma once

#include "engine/reduce.hpp"

/// The loops of `reduce.hpp`, compiled once for each instruction set in its own file.
namespace tutti::engine {

struct Kernels {
  transport::ReduceFunction reduce = nullptr;
  CombineFunction combine = nullptr;
};

/// buffer[i] /= ranks.
using DivideFunction = void (*)(std::byte* buffer, std::size_t count, int ranks);

// All give null where there is no such function.
[[nodiscard]] Kernels baseline_kernels(Type type, Operator op);
[[nodiscard]] DivideFunction baseline_divide(Type type);
#ifdef __x86_64__
[[nodiscard]] Kernels avx2_kernels(Type type, Operator op);
[[nodiscard]] DivideFunction avx2_divide(Type type);
[[nodiscard]] Kernels avx512_kernels(Type type, Operator op);
[[nodiscard]] DivideFunction avx512_divide(Type type);
#endif

}  // namespace tutti::engine
