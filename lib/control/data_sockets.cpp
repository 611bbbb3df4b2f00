#include "control/data_sockets.hpp"

#include <algorithm>

namespace tutti::control {

void DataSockets::add(int peer, int socket) {
  const std::lock_guard lock(mutex_);
  sockets_[peer] = socket;
}

void DataSockets::clear() {
  const std::lock_guard lock(mutex_);
  sockets_.clear();
}

std::vector<LostData> DataSockets::lost() const {
  std::vector<LostData> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [peer, socket] : sockets_) {
      if (const auto data = rendezvous::find_unacknowledged(socket)) all.push_back({peer, *data});
    }
  }
  if (all.size() <= most_lost_told) return all;
  std::stable_sort(all.begin(), all.end(), [](const LostData& one, const LostData& other) {
    return one.data.bytes > other.data.bytes;
  });
  all.resize(most_lost_told);
  std::sort(all.begin(), all.end(),
            [](const LostData& one, const LostData& other) { return one.peer < other.peer; });
  return all;
}

}  // namespace tutti::control
