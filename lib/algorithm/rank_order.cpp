#include "algorithm/rank_order.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace tutti::algorithm {

namespace {

int wrap(int value, int size) {
  const int rest = value % size;
  return rest < 0 ? rest + size : rest;
}

// Host by host from that of `first`; on each the ranks from `first` on, cyclically.
std::vector<int> by_host(const ScheduleArguments& arguments, int first) {
  const std::vector<int>& host = arguments.host;
  const int host_count = *std::max_element(host.begin(), host.end()) + 1;
  const int first_host = host[static_cast<std::size_t>(first)];
  const auto turn_of = [&](int rank) {
    return static_cast<std::size_t>(
        wrap(host[static_cast<std::size_t>(rank)] - first_host, host_count));
  };
  std::vector<std::size_t> next(static_cast<std::size_t>(host_count) + 1);
  for (int rank = 0; rank < arguments.size; ++rank) ++next[turn_of(rank) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<int> ranks(static_cast<std::size_t>(arguments.size));
  for (int i = 0; i < arguments.size; ++i) {
    const int rank = wrap(first + i, arguments.size);
    ranks[next[turn_of(rank)]++] = rank;
  }
  return ranks;
}

}  // namespace

RankOrder::RankOrder(const ScheduleArguments& arguments, int first)
    : size_(arguments.size),
      first_(first),
      position_(wrap(arguments.rank - first, arguments.size)) {
  if (arguments.host.empty()) return;
  if (arguments.host.size() != static_cast<std::size_t>(size_))
    throw std::invalid_argument("ScheduleArguments::host needs one host for each rank");
  ranks_ = by_host(arguments, first);
  const auto own = std::find(ranks_.begin(), ranks_.end(), arguments.rank);
  position_ = static_cast<int>(own - ranks_.begin());
}

int RankOrder::rank_at(int position) const {
  const int wrapped = wrap(position, size_);
  if (ranks_.empty()) return wrap(first_ + wrapped, size_);
  return ranks_[static_cast<std::size_t>(wrapped)];
}

}  // namespace tutti::algorithm
