#include "control/topology.hpp"

#include <algorithm>
#include <set>

namespace tutti::control {

std::vector<int> neighbours(int rank, int size) {
  std::set<int> result;
  for (int distance = 1; distance < size; distance *= 2) {
    result.insert((rank + distance) % size);
    result.insert((rank - distance + size) % size);
  }
  result.erase(rank);
  return {result.begin(), result.end()};
}

bool is_neighbour(int rank, int other, int size) {
  const auto all = neighbours(rank, size);
  return std::binary_search(all.begin(), all.end(), other);
}

}  // namespace tutti::control
