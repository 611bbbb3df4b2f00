#pragma once

#include "base/default_floats.hpp"
#include "engine/reduce.hpp"

/// The loops of `reduce.hpp`, compiled once for each instruction set in its own file.
namespace tutti::engine {

struct Kernels {
  transport::ReduceFunction reduce = nullptr;
  CombineFunction combine = nullptr;
};

/// to[i] = from[i] times the weight of one of `ranks`.
using WeighFunction = void (*)(std::byte* to, const std::byte* from, std::size_t count, int ranks);
/// buffer[i] /= ranks, of a sum that was weighed if `weigh` is not null.
using DivideFunction = void (*)(std::byte* buffer, std::size_t count, int ranks);

/// How an average is made around its sum.
struct Averaging {
  WeighFunction weigh = nullptr;
  DivideFunction divide = nullptr;
};

// All give null where there is no such function.
[[nodiscard]] Kernels baseline_kernels(Type type, Operator op);
[[nodiscard]] Averaging baseline_averaging(Type type);
#ifdef __x86_64__
[[nodiscard]] Kernels avx2_kernels(Type type, Operator op);
[[nodiscard]] Averaging avx2_averaging(Type type);
[[nodiscard]] Kernels avx512_kernels(Type type, Operator op);
[[nodiscard]] Averaging avx512_averaging(Type type);
#endif

}  // namespace tutti::engine
