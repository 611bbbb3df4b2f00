#include "support/memory_links.hpp"

#include <algorithm>

namespace tutti::transport {

void MemoryNetwork::finish(int rank, const StreamKey& key) {
  // Both ends must have finished with a stream before it is erased.
  std::erase_if(streams_, [&](const auto& entry) {
    const auto& [from, to, name] = entry.first;
    return name == key && (from == rank || to == rank) && entry.second.sends.empty() &&
           entry.second.receives.posted() == entry.second.receives.arrived();
  });
}

bool MemoryNetwork::move(std::size_t most) {
  bool moved = false;
  for (auto& [name, stream] : streams_) {
    while (!stream.sends.empty() && stream.sends.front()->done()) stream.sends.pop_front();
    if (stream.sends.empty()) continue;
    auto& send = *stream.sends.front();
    const auto wanted = stream.receives.posted() - stream.receives.arrived();
    const auto bytes = std::min<std::size_t>(
        {most, send.from.size() - send.sent, static_cast<std::size_t>(wanted)});
    if (bytes == 0) continue;
    stream.receives.put(send.from.subspan(send.sent, bytes), false);
    send.sent += bytes;
    if (send.done()) stream.sends.pop_front();
    moved = true;
  }
  return moved;
}

void MemoryLinks::post(SendRequest& request) {
  request.names_call = false;
  if (request.done()) return;
  network_.stream(rank_, request.peer, request.call->key).sends.push_back(&request);
}

void MemoryLinks::post(RecvRequest& request) {
  network_.stream(request.peer, rank_, request.call->key).receives.post(request);
}

}  // namespace tutti::transport
