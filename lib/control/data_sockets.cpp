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

std::vector<UnacknowledgedData> DataSockets::unacknowledged() const {
  std::vector<UnacknowledgedData> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [peer, socket] : sockets_) {
      if (const auto data = rendezvous::find_unacknowledged(socket)) all.push_back({peer, *data});
    }
  }
  if (all.size() <= max_unacknowledged_reported) return all;
  std::stable_sort(all.begin(), all.end(),
                   [](const UnacknowledgedData& one, const UnacknowledgedData& other) {
                     return one.data.bytes > other.data.bytes;
                   });
  all.resize(max_unacknowledged_reported);
  std::sort(all.begin(), all.end(),
            [](const UnacknowledgedData& one, const UnacknowledgedData& other) {
              return one.peer < other.peer;
            });
  return all;
}

}  // namespace tutti::control
