#include "engine/reduce.hpp"

#include <array>

#include "reduce_kernels.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace tutti::engine {
namespace {

constexpr std::array sets{InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512};

#ifdef __x86_64__
bool has_f16c() {
  // CPUID directly, since Clang 14's __builtin_cpu_supports() lacks f16c.
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

std::size_t count_sets() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return 1;
  // VBMI2 identifies Ice Lake, Zen 4 and later. On earlier processors 512-bit arithmetic lowers the
  // core's clock and slows the surrounding program.
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi2");
  return avx512 ? 3 : 2;
}

Kernels select_kernels(Type type, Operator op, InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return avx512_kernels(type, op);
    case InstructionSet::avx2:
      return avx2_kernels(type, op);
    case InstructionSet::baseline:
      break;
  }
  return baseline_kernels(type, op);
}

Averaging select_averaging(Type type, InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return avx512_averaging(type);
    case InstructionSet::avx2:
      return avx2_averaging(type);
    case InstructionSet::baseline:
      break;
  }
  return baseline_averaging(type);
}
#else
std::size_t count_sets() {
  return 1;
}

Kernels select_kernels(Type type, Operator op, InstructionSet) {
  return baseline_kernels(type, op);
}

Averaging select_averaging(Type type, InstructionSet) {
  return baseline_averaging(type);
}
#endif

}  // namespace

std::span<const InstructionSet> instruction_sets() noexcept {
  // Once: in a virtual machine CPUID costs microseconds.
  static const std::size_t count = count_sets();
  return std::span(sets).first(count);
}

transport::ReduceFunction reduce_function(Type type, Operator op) {
  return reduce_function(type, op, instruction_sets().back());
}

transport::ReduceFunction reduce_function(Type type, Operator op, InstructionSet set) {
  return reducible(type, op) ? select_kernels(type, op, set).reduce : nullptr;
}

CombineFunction combine_function(Type type, Operator op) {
  return combine_function(type, op, instruction_sets().back());
}

CombineFunction combine_function(Type type, Operator op, InstructionSet set) {
  return reducible(type, op) ? select_kernels(type, op, set).combine : nullptr;
}

bool divides_itself(Type type) noexcept {
  return type == Type::f16 || type == Type::bf16;
}

bool is_weighed(Type type) noexcept {
  return type == Type::f32 || type == Type::f64 || type == Type::c64 || type == Type::c128;
}

double average_weight(std::size_t ranks) noexcept {
  double weight = ranks > 1 ? 0.5 : 1;
  for (std::size_t powers = 1; powers < ranks; powers *= 2) weight /= 2;
  return weight;
}

void weigh(std::byte* to, const std::byte* from, std::size_t count, Type type, double factor) {
  weigh(to, from, count, type, factor, instruction_sets().back());
}

void weigh(std::byte* to, const std::byte* from, std::size_t count, Type type, double factor,
           InstructionSet set) {
  const auto function = select_averaging(type, set).weigh;
  if (function != nullptr) function(to, from, count, factor);
}

void divide(std::byte* buffer, std::size_t count, Type type, int ranks) {
  divide(buffer, count, type, ranks, instruction_sets().back());
}

void divide(std::byte* buffer, std::size_t count, Type type, int ranks, InstructionSet set) {
  const auto function = select_averaging(type, set).divide;
  if (function != nullptr) function(buffer, count, ranks);
}

}  // namespace tutti::engine
