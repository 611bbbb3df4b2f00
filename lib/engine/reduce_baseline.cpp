// Reduction loops for the baseline of the architecture.
#include "reduce_table.hpp"

namespace tutti::engine {
namespace {

struct Baseline {
  static constexpr std::size_t width = 16;
  using Halves = vector::PlainHalves<Baseline>;
};

}  // namespace

Kernels baseline_kernels(Type type, Operator op) {
  return vector::kernels<Baseline>(type, op);
}

Averaging baseline_averaging(Type type) {
  return vector::averaging<Baseline>(type);
}

}  // namespace tutti::engine
