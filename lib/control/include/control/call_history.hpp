#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/brief_lock.hpp"
#include "base/call_signature.hpp"
#include "control/group.hpp"

namespace tutti::control {

/// An entry of a rank's history of collective calls, or another call of its own.
struct PastCall {
  std::uint64_t sequence = 0;  ///< 1 for the first; of another call: of the latest collective one
  CallSignature call;
  std::uint64_t fingerprint = 0;  ///< over all calls up to and including this one
  std::uint64_t before = 0;       ///< over all calls before it; own calls only
  std::uint64_t ticket = 0;       ///< for end(); own calls only
};

/// A call in the recorder, collective or not. Times are nanoseconds of the steady clock.
struct RecordedCall {
  std::uint64_t sequence = 0;  ///< of the communicator's latest collective call when this one began
  CallSignature call;
  std::int64_t begin = 0;
  std::int64_t end = 0;      ///< 0: in progress
  std::vector<int> awaited;  ///< ranks of the job that it waits for, once the wait is long
};

/// A rank's current activity, from the view of one communicator.
struct Activity {
  bool in_call = false;
  std::uint64_t sequence = 0;  ///< of the communicator's latest collective call, in progress or not
  CallSignature call;          ///< the call in progress (collective or not), else the latest one
  std::chrono::steady_clock::time_point since{};
  bool elsewhere = false;  ///< `call` is in progress in another communicator
};

/// History of one communicator's calls on one rank. Written by the caller's thread, read by the
/// control thread.
class CallHistory {
 public:
  static constexpr std::size_t kept = 256;      ///< collective calls; more if more are in flight
  static constexpr std::size_t recorded = 128;  ///< capacity of the recorder, in calls

  /// `exact`: read the precise clock; otherwise times are up to some milliseconds old.
  explicit CallHistory(Group group = {}, bool exact = false)
      : group_(std::move(group)), exact_(exact) {
    awaited_.reserve(static_cast<std::size_t>(group_.size()));
  }
  [[nodiscard]] const Group& group() const { return group_; }

  /// Records the start of the next collective call and returns its entry.
  PastCall begin_collective(const CallSignature& call);
  /// Records the start of a send or receive: part of activity(), but not compared between ranks.
  PastCall begin_other(const CallSignature& call);
  /// Records the end of the call with this ticket; 0: of the oldest call in progress.
  void end(std::uint64_t ticket = 0);
  /// Records the end of the latest call from the thread that began it. Takes no lock: releasing the
  /// lock would wait until the call's stores are visible to other cores.
  void end_latest(std::uint64_t ticket);
  /// Sets the ranks of the job that the call with this ticket waits for. Leaves memory for the next
  /// ones in `ranks`.
  void note_awaited(std::uint64_t ticket, std::vector<int>& ranks);
  /// The recorder's calls, oldest first.
  [[nodiscard]] std::vector<RecordedCall> record() const;

  [[nodiscard]] Activity activity() const;
  [[nodiscard]] std::optional<PastCall> find(std::uint64_t sequence) const;
  /// The latest `max_count` calls, oldest first.
  [[nodiscard]] std::vector<PastCall> latest(std::size_t max_count) const;

 private:
  struct Slot {
    std::uint64_t ticket = 0;
    std::uint64_t sequence = 0;
    CallSignature call;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  [[nodiscard]] std::chrono::steady_clock::time_point now() const;
  std::uint64_t begin(const CallSignature& call);
  void end_slot(std::uint64_t ticket, std::int64_t time);
  void take_ended();
  void grow();

  [[nodiscard]] PastCall& entry(std::uint64_t sequence) { return ring_[sequence & mask_]; }
  [[nodiscard]] const PastCall& entry(std::uint64_t sequence) const {
    return ring_[sequence & mask_];
  }

  mutable BriefLock mutex_;
  std::vector<PastCall> ring_{kept};  ///< a power of two: a division would cost as much as the lock
  std::uint64_t mask_ = kept - 1;
  std::array<Slot, recorded> slots_{};
  std::uint64_t ticket_ = 0;
  std::uint64_t awaiting_ticket_ = 0;
  std::vector<int> awaited_;
  std::uint64_t sequence_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::chrono::steady_clock::time_point since_{};  ///< the latest begin or end of a call
  std::uint64_t unfinished_ = 0;
  // Set by end_latest() until the next call begins; until then the call counts as in progress
  // elsewhere.
  std::atomic<std::uint64_t> ended_{0};  ///< ticket; 0: none
  std::atomic<std::int64_t> ended_at_{0};
  Group group_;
  bool exact_ = false;
};

/// The first call in which two histories differ.
struct Difference {
  std::uint64_t sequence = 0;
  std::optional<CallSignature> mine;  ///< empty if no longer in the history
  std::optional<CallSignature> theirs;
};

/// Compares a peer's latest calls with the own history. Calls that this rank has not made yet are
/// not a difference.
[[nodiscard]] std::optional<Difference> compare(const CallHistory& mine,
                                                const std::vector<PastCall>& theirs);

}  // namespace tutti::control
