#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "control/call_history.hpp"
#include "control/group.hpp"

namespace tutti::control {

/// This rank's call histories, one for each communicator. Safe from any thread.
class CallHistories {
 public:
  /// Requests that the control thread sends this rank's latest calls in a communicator to a peer.
  using SendCalls = std::function<void(int peer, std::uint32_t communicator)>;

  /// `exact`: as in CallHistory.
  CallHistories(bool exact, SendCalls send_calls)
      : exact_(exact), send_calls_(std::move(send_calls)) {}
  CallHistories(const CallHistories&) = delete;
  CallHistories& operator=(const CallHistories&) = delete;

  /// Starts recording the calls of a communicator, until close(). Calls of communicators without an
  /// open history are not compared.
  std::shared_ptr<CallHistory> open(Group group);
  void close(std::uint32_t communicator);
  /// Null if that communicator has no open history.
  [[nodiscard]] std::shared_ptr<CallHistory> find(std::uint32_t communicator) const;
  /// By the communicators' ids, ascending.
  [[nodiscard]] std::vector<std::shared_ptr<CallHistory>> all() const;

  /// This rank's activity from the view of one communicator.
  [[nodiscard]] Activity activity_seen_from(std::uint32_t communicator) const;
  /// True once a collective call has completed in an open communicator.
  [[nodiscard]] bool have_completed_call() const;

  /// Sends the latest calls in a communicator to `peer` (a rank of the job), which compares them
  /// with its own and reports a mismatch. Returns immediately.
  void send_latest_to(int peer, std::uint32_t communicator) const {
    send_calls_(peer, communicator);
  }

 private:
  bool exact_;
  SendCalls send_calls_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<CallHistory>> histories_;
};

}  // namespace tutti::control
