#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "rendezvous/unacknowledged.hpp"

namespace tutti::control {

/// Data sent to a peer that is not acknowledged despite retransmissions.
struct UnacknowledgedData {
  int peer = -1;  ///< the receiver
  rendezvous::Unacknowledged data;
  friend bool operator==(const UnacknowledgedData&, const UnacknowledgedData&) = default;
};

/// A status message lists at most this many peers.
inline constexpr std::size_t max_unacknowledged_reported = 16;

/// This rank's data sockets, registered so that the control thread can query the kernel about them
/// independently of the thread that owns them.
class DataSockets {
 public:
  DataSockets() = default;
  DataSockets(const DataSockets&) = delete;
  DataSockets& operator=(const DataSockets&) = delete;

  /// `socket` is not owned; its owner calls clear() before closing it.
  void add(int peer, int socket);
  void clear();
  /// Sorted by peer; at most max_unacknowledged_reported, those with the most bytes.
  [[nodiscard]] std::vector<UnacknowledgedData> unacknowledged() const;

 private:
  mutable std::mutex mutex_;
  std::map<int, int> sockets_;
};

}  // namespace tutti::control
