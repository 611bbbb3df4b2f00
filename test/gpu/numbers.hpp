#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/types.hpp"

/// Test data that every rank can work out for every other, and what reductions of it must give, in
/// higher precision than any device's.
namespace tutti::gpu_test {

/// Where a rank's data comes from.
struct Source {
  Type type = Type::u8;
  Operator op = Operator::sum;  ///< what it will be reduced by
  std::uint64_t seed = 0;
  int ranks = 1;
};

/// Element `index` of what `rank` contributes: any bits for integers, [-1, 1) for f32 and f64,
/// quarters up to 2 for smaller floats; for product and average what neither overflows nor
/// vanishes. Written to `to`.
void write_element(const Source& source, int rank, std::size_t index, std::byte* to);
[[nodiscard]] std::vector<std::byte> contribution(const Source& source, int rank, std::size_t first,
                                                  std::size_t count);

/// Empty if `found` is the reduction of all ranks' elements `index`, as near as the type allows for
/// any order; else both values.
[[nodiscard]] std::string complaint(const Source& source, std::size_t index,
                                    const std::byte* found);

}  // namespace tutti::gpu_test
