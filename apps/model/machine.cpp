#include "model/machine.hpp"

#include <numeric>

namespace tutti::model {

std::vector<int> place(const std::vector<int>& ranks_of_host, MapBy map_by) {
  std::vector<int> host;
  const int hosts = static_cast<int>(ranks_of_host.size());
  if (map_by == MapBy::slot) {
    for (int h = 0; h < hosts; ++h)
      host.insert(host.end(), static_cast<std::size_t>(ranks_of_host[static_cast<std::size_t>(h)]),
                  h);
    return host;
  }
  const auto all =
      static_cast<std::size_t>(std::accumulate(ranks_of_host.begin(), ranks_of_host.end(), 0));
  for (int turn = 0; host.size() < all; ++turn)
    for (int h = 0; h < hosts; ++h)
      if (turn < ranks_of_host[static_cast<std::size_t>(h)]) host.push_back(h);
  return host;
}

std::vector<int> distribute_evenly(int ranks, int hosts) {
  std::vector<int> shares;
  shares.reserve(static_cast<std::size_t>(hosts));
  for (int h = 0; h < hosts; ++h) shares.push_back(ranks / hosts + (h < ranks % hosts ? 1 : 0));
  return shares;
}

}  // namespace tutti::model
