#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "control/call_histories.hpp"
#include "control/failure_report.hpp"
#include "control/message.hpp"
#include "rendezvous/peers.hpp"

namespace tutti::control {

/// Finds mismatched calls: a rank that waits in a call sends its latest calls to its neighbours,
/// and each compares what it receives with its own calls. For the control thread. No I/O, so a test
/// can run it.
class CallComparison {
 public:
  struct Outbox {
    std::function<void(int peer, Bytes calls)> send;  ///< a message of kind `calls`
    std::function<void(const FailureReport&)> report;
  };

  /// `peers` and `histories` must outlive it.
  CallComparison(const rendezvous::Peers& peers, const CallHistories& histories, Outbox outbox)
      : peers_(peers), histories_(histories), outbox_(std::move(outbox)) {}

  /// Sends this rank's latest calls in a communicator to `peer`, a rank of the job.
  void send_latest_to(int peer, std::uint32_t communicator) const;
  /// A rank of the job has sent its latest calls. Calls that this rank has not made yet are kept
  /// until tick() finds them made.
  void on_calls(int origin, CallsMessage message);
  /// Call it periodically: sends calls that last longer than `min_wait`, and compares calls that
  /// this rank has made since they arrived.
  void tick(std::chrono::steady_clock::time_point now, std::chrono::milliseconds min_wait);

 private:
  void notify_neighbours(const CallHistory& history, std::chrono::steady_clock::time_point now,
                         std::chrono::milliseconds min_wait);
  void compare_with(int peer, std::uint32_t communicator);

  const rendezvous::Peers& peers_;
  const CallHistories& histories_;
  Outbox outbox_;
  /// The latest calls of a peer in a communicator, as it sent them.
  std::map<std::pair<int, std::uint32_t>, std::vector<PastCall>> peer_calls_;
  std::map<std::uint32_t, std::uint64_t> sent_for_;  ///< communicator → sequence
};

/// The report that two ranks' calls number `sequence` in the group's communicator do not match.
[[nodiscard]] FailureReport mismatch(const rendezvous::Peers& peers, const Group& group,
                                     std::uint64_t sequence, int rank,
                                     const std::optional<CallSignature>& call, int other,
                                     const std::optional<CallSignature>& other_call);

}  // namespace tutti::control
