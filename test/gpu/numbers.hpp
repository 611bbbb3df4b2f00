#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/types.hpp"

/// Test data that every rank can compute for all others, and the expected results of reductions, in
/// higher precision than the device's.
namespace tutti::gpu_test {

/// Parameters of the test data.
struct Source {
  Type type = Type::u8;
  Operator op = Operator::sum;  ///< the operator of the reduction
  std::uint64_t seed = 0;
  int ranks = 1;
};

/// The factor of a rank in a premultiplied sum.
[[nodiscard]] constexpr double factor_of(int rank) {
  return rank % 2 == 0 ? 0.5 : -2;
}

/// Writes element `index` of the contribution of `rank`: any bits for integers; [-1, 1) for f32 and
/// f64; multiples of 1/4 up to 2 for smaller floats; for product and average values that neither
/// overflow nor vanish.
void write_element(const Source& source, int rank, std::size_t index, std::byte* to);
[[nodiscard]] std::vector<std::byte> contribution(const Source& source, int rank, std::size_t first,
                                                  std::size_t count);

/// Empty if `found` is the reduction of all ranks' elements `index`, within the rounding of any
/// order; else both values.
[[nodiscard]] std::string difference(const Source& source, std::size_t index,
                                     const std::byte* found);

}  // namespace tutti::gpu_test
