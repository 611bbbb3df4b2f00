#include "control/call_history.hpp"

#include <time.h>

#include <algorithm>

namespace tutti::control {
namespace {

/// The clock's latest tick, some milliseconds old at most: enough to tell for how long a call has
/// lasted, and cheap also where reading the time takes a system call.
std::chrono::steady_clock::time_point recent_time() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace

PastCall CallHistory::begin_collective(const CallSignature& call) {
  const std::lock_guard lock(mutex_);
  const auto before = fingerprint_;
  fingerprint_ = fingerprint(before, call);
  ++sequence_;
  const PastCall past{sequence_, call, fingerprint_, before};
  ring_[sequence_ % kept] = past;
  activity_ = {true, sequence_, call, recent_time()};
  ++unfinished_;
  return past;
}

void CallHistory::begin_other(const CallSignature& call) {
  const std::lock_guard lock(mutex_);
  activity_ = {true, sequence_, call, recent_time()};
  ++unfinished_;
}

void CallHistory::end() {
  const std::lock_guard lock(mutex_);
  if (unfinished_ > 0) --unfinished_;
  activity_.in_call = unfinished_ > 0;
  activity_.since = recent_time();
}

Activity CallHistory::activity() const {
  const std::lock_guard lock(mutex_);
  return activity_;
}

std::optional<PastCall> CallHistory::find(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const auto& entry = ring_[sequence % kept];
  if (sequence == 0 || entry.sequence != sequence) return std::nullopt;
  return entry;
}

std::vector<PastCall> CallHistory::latest(std::size_t most) const {
  const std::lock_guard lock(mutex_);
  const auto count = std::min<std::uint64_t>({most, kept, sequence_});
  std::vector<PastCall> result;
  for (auto sequence = sequence_ - count + 1; sequence <= sequence_; ++sequence) {
    result.push_back(ring_[sequence % kept]);
  }
  return result;
}

std::optional<Difference> compare(const CallHistory& mine, const std::vector<PastCall>& theirs) {
  for (const auto& past : theirs) {
    const auto own = mine.find(past.sequence);
    if (!own || own->fingerprint == past.fingerprint) continue;
    if (own->call != past.call) return Difference{own->sequence, own->call, past.call};
    // The same call after different ones: the difference is older than what both still know.
    return Difference{own->sequence - 1, std::nullopt, std::nullopt};
  }
  return std::nullopt;
}

}  // namespace tutti::control
