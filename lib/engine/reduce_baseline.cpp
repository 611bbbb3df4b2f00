// The loops of reductions for what every processor of the architecture has.
#include "engine/reduce_table.hpp"

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

DivideFunction baseline_divide(Type type) {
  return vector::division<Baseline>(type);
}

}  // namespace tutti::engine
