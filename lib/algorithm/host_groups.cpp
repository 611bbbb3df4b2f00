#include "host_groups.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace tutti::algorithm {

HostGroups::HostGroups(const ScheduleArguments& arguments) {
  const auto size = static_cast<std::size_t>(arguments.size);
  if (arguments.host.empty()) {
    ranks_.emplace_back(size);
    std::iota(ranks_.front().begin(), ranks_.front().end(), 0);
  } else {
    if (arguments.host.size() != size)
      throw std::invalid_argument("ScheduleArguments::host needs one host for each rank");
    const int last = *std::max_element(arguments.host.begin(), arguments.host.end());
    ranks_.resize(static_cast<std::size_t>(last) + 1);
    for (int rank = 0; rank < arguments.size; ++rank)
      ranks_[static_cast<std::size_t>(arguments.host[static_cast<std::size_t>(rank)])].push_back(
          rank);
    std::erase_if(ranks_, [](const auto& ranks) { return ranks.empty(); });
  }
  host_of_.resize(size);
  index_of_.resize(size);
  for (int host = 0; host < hosts(); ++host) {
    for (int index = 0; index < std::ssize(ranks_of(host)); ++index) {
      const auto rank = static_cast<std::size_t>(rank_at(host, index));
      host_of_[rank] = host;
      index_of_[rank] = index;
    }
  }
  const auto smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto [smallest, largest] = std::minmax_element(ranks_.begin(), ranks_.end(), smaller);
  min_ranks_ = static_cast<int>(smallest->size());
  max_ranks_ = static_cast<int>(largest->size());
  const auto own = static_cast<std::size_t>(arguments.rank);
  host_ = host_of_[own];
  index_ = index_of_[own];
  shares_ = arguments.shares_memory && hosts() > 1 && here() > 1;
}

std::vector<int> HostGroups::neighbours() const {
  std::vector<int> result;
  for (int turn = 1; turn < here(); ++turn) result.push_back(rank_here((index_ + turn) % here()));
  return result;
}

}  // namespace tutti::algorithm
