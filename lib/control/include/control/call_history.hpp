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

/// A collective call as its rank remembers it.
struct PastCall {
  std::uint64_t sequence = 0;  ///< 1 for the first
  CallSignature call;
  std::uint64_t fingerprint = 0;  ///< of all calls up to and including this one
  std::uint64_t before = 0;       ///< of all calls before it; own calls only
  std::uint64_t ticket = 0;       ///< for end(); own calls only
};

/// A call that is no collective one.
struct OtherCall {
  std::uint64_t ticket = 0;    ///< for CallHistory::end()
  std::uint64_t sequence = 0;  ///< of the latest collective call
};

/// A call, collective or not, as the recorder remembers it. Times are nanoseconds of the steady
/// clock.
struct RecordedCall {
  std::uint64_t sequence = 0;  ///< of the communicator's latest collective call at its begin
  CallSignature call;
  std::int64_t begin = 0;
  std::int64_t end = 0;      ///< 0: in progress
  std::vector<int> awaited;  ///< ranks of the job that it waits for, where it has long done so
};

/// What a rank is doing, as seen from one communicator.
struct Activity {
  bool in_call = false;
  std::uint64_t sequence = 0;  ///< of the communicator's latest collective call, in progress or not
  CallSignature call;          ///< the call in progress (collective or not), else the latest
  std::chrono::steady_clock::time_point since{};
  bool elsewhere = false;  ///< `call` is in progress in another communicator
};

/// The collective calls of one communicator on one rank. Written by the caller's thread, read by
/// the control thread.
class CallHistory {
 public:
  static constexpr std::size_t kept = 256;      ///< collective calls; more where more are in flight
  static constexpr std::size_t recorded = 128;  ///< calls that the recorder keeps

  /// `exact`: the recorder's times are exact, not some milliseconds old.
  explicit CallHistory(Group group = {}, bool exact = false)
      : group_(std::move(group)), exact_(exact) {}
  [[nodiscard]] const Group& group() const { return group_; }

  /// Starts the next collective call and returns it.
  PastCall begin_collective(const CallSignature& call);
  /// A send or receive: part of what the rank is doing, not of what all ranks must do alike.
  OtherCall begin_other(const CallSignature& call);
  /// A call is over: the one with this ticket, else the first of those in progress.
  void end(std::uint64_t ticket = 0);
  /// The same for the latest call, by the thread that began it and has waited for it: without the
  /// lock, which on the way would wait until others see all that the call has written.
  void end_latest(std::uint64_t ticket);
  /// The call with this ticket has been waiting for these ranks of the job.
  void note_awaited(std::uint64_t ticket, std::vector<int> ranks);
  /// What the recorder has, oldest first.
  [[nodiscard]] std::vector<RecordedCall> record() const;

  [[nodiscard]] Activity activity() const;
  [[nodiscard]] std::optional<PastCall> find(std::uint64_t sequence) const;
  /// The latest `most` calls, oldest first.
  [[nodiscard]] std::vector<PastCall> latest(std::size_t most) const;

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
  std::vector<PastCall> ring_{kept};  ///< a power of two: a division would take as long as a lock
  std::uint64_t mask_ = kept - 1;
  std::array<Slot, recorded> slots_{};
  std::uint64_t ticket_ = 0;
  std::uint64_t awaiting_ticket_ = 0;
  std::vector<int> awaited_;
  std::uint64_t sequence_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::chrono::steady_clock::time_point since_{};  ///< the latest begin or end
  std::uint64_t unfinished_ = 0;
  // The call of end_latest() until the next one begins: in all else it still counts as in progress.
  std::atomic<std::uint64_t> ended_{0};  ///< its ticket; 0: none
  std::atomic<std::int64_t> ended_at_{0};
  Group group_;
  bool exact_ = false;
};

/// The first call in which two histories differ.
struct Difference {
  std::uint64_t sequence = 0;
  std::optional<CallSignature> mine;  ///< empty where it is too long ago to be remembered
  std::optional<CallSignature> theirs;
};

/// Compares a peer's latest calls with the own ones. Calls that this rank has not made yet are no
/// difference.
[[nodiscard]] std::optional<Difference> compare(const CallHistory& mine,
                                                const std::vector<PastCall>& theirs);

}  // namespace tutti::control
