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
  for (int host = 0; host < hosts(); ++host) {
    for (const int rank : of(host)) host_of_[static_cast<std::size_t>(rank)] = host;
  }
  const auto smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto [smallest, largest] = std::minmax_element(ranks_.begin(), ranks_.end(), smaller);
  min_ranks_ = static_cast<int>(smallest->size());
  max_ranks_ = static_cast<int>(largest->size());
  while (host_ < hosts()) {
    const auto& ranks = of(host_);
    const auto own = std::find(ranks.begin(), ranks.end(), arguments.rank);
    if (own != ranks.end()) {
      index_ = static_cast<int>(own - ranks.begin());
      return;
    }
    ++host_;
  }
}

}  // namespace tutti::algorithm
