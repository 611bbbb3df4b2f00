#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tutti/types.hpp"

/// Data that says where it came from: a value for each rank and index, small enough to be exact in
/// every type.
namespace tutti::app {

void fill(std::byte* buffer, std::size_t count, Type type, int rank);

/// For all_reduce by `op`: values whose result can be computed exactly.
void fill_for(Operator op, std::byte* buffer, std::size_t count, Type type, int rank);

struct Wrong {
  std::size_t elements = 0;
  std::string first;  ///< "element 17 is 3 where 5 is due"
};

/// Compares every element with what rank `rank` filled in; empty if all are right.
[[nodiscard]] std::optional<Wrong> check(const std::byte* buffer, std::size_t count, Type type,
                                         int rank);

/// The same for the result of an all_reduce over `ranks` ranks.
[[nodiscard]] std::optional<Wrong> check_reduced(Operator op, const std::byte* buffer,
                                                 std::size_t count, Type type, int ranks);

}  // namespace tutti::app
