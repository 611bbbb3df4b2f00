#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "control/data_sockets.hpp"
#include "rendezvous/connection.hpp"
#include "tutti/deadline.hpp"

namespace tutti::control {

/// A data connection, or the reason why a requested one failed.
struct DataConnection {
  rendezvous::Connection connection;  ///< without a socket on failure
  bool dialed_here = false;
  std::string failure;
};

/// Data connections from the control thread, which accepts and opens them, to the thread that runs
/// the links.
class Connector {
 public:
  /// Requests that the control thread opens a data connection to a peer.
  using Dial = std::function<void(int peer, Deadline deadline)>;

  /// `wakeup` must outlive it.
  Connector(const Wakeup& wakeup, Dial dial) : wakeup_(wakeup), dial_(std::move(dial)) {}
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  /// Requests a data connection to `peer`; take() returns it, or its failure. Returns immediately.
  void request(int peer, Deadline deadline) { dial_(peer, deadline); }
  /// The connections, requested here or by peers, since the last call.
  [[nodiscard]] std::vector<DataConnection> take();
  /// Registry of the sockets by which this rank sends data.
  [[nodiscard]] DataSockets& data_sockets() { return data_sockets_; }
  [[nodiscard]] const DataSockets& data_sockets() const { return data_sockets_; }

  /// For the control thread: makes the wakeup readable.
  void deliver(DataConnection connection);

 private:
  const Wakeup& wakeup_;
  Dial dial_;
  DataSockets data_sockets_;
  std::mutex mutex_;
  std::vector<DataConnection> connections_;
};

}  // namespace tutti::control
