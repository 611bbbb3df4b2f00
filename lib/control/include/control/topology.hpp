#pragma once

#include <vector>

namespace tutti::control {

/// The ranks that have a control link with `rank`: those at distance 1, 2, 4, … in both directions
/// round the ring, ascending. O(log n) per rank; with 5 ranks or more at least 4, so that the graph
/// stays connected after any two deaths. The lower rank of a pair dials.
[[nodiscard]] std::vector<int> neighbours(int rank, int size);

/// True if `rank` and `other` have a control link.
[[nodiscard]] bool is_neighbour(int rank, int other, int size);

}  // namespace tutti::control
