#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/call_signature.hpp"
#include "control/group.hpp"

namespace tutti::control {

/// A collective call as its rank remembers it.
struct PastCall {
  std::uint64_t sequence = 0;  ///< 1 for the first
  CallSignature call;
  std::uint64_t fingerprint = 0;  ///< of all calls up to and including this one
  std::uint64_t before = 0;       ///< of all calls before it; own calls only
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
  static constexpr std::size_t kept = 256;

  explicit CallHistory(Group group = {}) : group_(std::move(group)) {}
  [[nodiscard]] const Group& group() const { return group_; }

  /// Starts the next collective call and returns it.
  PastCall begin_collective(const CallSignature& call);
  /// A send or receive: part of what the rank is doing, not of what all ranks must do alike.
  void begin_other(const CallSignature& call);
  /// One of the calls begun is over.
  void end();

  [[nodiscard]] Activity activity() const;
  [[nodiscard]] std::optional<PastCall> find(std::uint64_t sequence) const;
  /// The latest `most` calls, oldest first.
  [[nodiscard]] std::vector<PastCall> latest(std::size_t most) const;

 private:
  mutable std::mutex mutex_;
  std::array<PastCall, kept> ring_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t fingerprint_ = 0;
  Activity activity_;
  std::uint64_t unfinished_ = 0;
  Group group_;
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
