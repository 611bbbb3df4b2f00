#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "rendezvous/unacknowledged.hpp"

namespace tutti::control {

/// Data that a rank has sent to another in vain.
struct UnacknowledgedData {
  int peer = -1;  ///< it was sent to
  rendezvous::Unacknowledged data;
  friend bool operator==(const UnacknowledgedData&, const UnacknowledgedData&) = default;
};

/// A rank tells of so many peers at most.
inline constexpr std::size_t max_unacknowledged_reported = 16;

/// The sockets by which this rank sends data, so that the control thread can ask the kernel about
/// them, whatever the thread that owns them does.
class DataSockets {
 public:
  DataSockets() = default;
  DataSockets(const DataSockets&) = delete;
  DataSockets& operator=(const DataSockets&) = delete;

  /// The socket stays its owner's, who calls clear() before it is closed.
  void add(int peer, int socket);
  void clear();
  /// By peer; those of most bytes where there are more than max_unacknowledged_reported.
  [[nodiscard]] std::vector<UnacknowledgedData> unacknowledged() const;

 private:
  mutable std::mutex mutex_;
  std::map<int, int> sockets_;
};

}  // namespace tutti::control
