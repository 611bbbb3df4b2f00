#pragma once

#include <vector>

namespace tutti::control {

/// Ranks that keep a control link with `rank`: those 1, 2, 4, … further and back round the ring,
/// ascending. O(log n) a rank; from 5 ranks on at least 4, so that any two may die and the rest is
/// still connected. In each pair the lower rank dials.
[[nodiscard]] std::vector<int> neighbours(int rank, int size);

/// True if `rank` and `other` keep a control link.
[[nodiscard]] bool is_neighbour(int rank, int other, int size);

}  // namespace tutti::control
