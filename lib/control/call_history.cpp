#include "control/call_history.hpp"

#include <time.h>

#include <algorithm>

namespace tutti::control {
namespace {

// Any number of device calls may be queued; the history compares at most this many.
constexpr std::size_t max_kept = 16384;

/// The clock's latest tick, at most some milliseconds old: precise enough for durations of calls,
/// and cheap even if reading the time takes a system call.
std::chrono::steady_clock::time_point recent_time() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace

std::chrono::steady_clock::time_point CallHistory::now() const {
  return exact_ ? std::chrono::steady_clock::now() : recent_time();
}

/// With the mutex held.
std::uint64_t CallHistory::begin(const CallSignature& call) {
  take_ended();
  const auto time = now();
  since_ = time;
  ++unfinished_;
  ++ticket_;
  slots_[ticket_ % recorded] = {ticket_, sequence_, call, time.time_since_epoch().count(), 0};
  return ticket_;
}

/// A call in flight must be in the history when a peer reports it.
void CallHistory::grow() {
  std::vector<PastCall> larger(2 * ring_.size());
  for (const auto& past : ring_) larger[past.sequence & (larger.size() - 1)] = past;
  ring_ = std::move(larger);
  mask_ = ring_.size() - 1;
}

PastCall CallHistory::begin_collective(const CallSignature& call) {
  const std::lock_guard lock(mutex_);
  if (unfinished_ + 1 >= ring_.size() && ring_.size() < max_kept) grow();
  const auto before = fingerprint_;
  fingerprint_ = fingerprint(before, call);
  ++sequence_;
  PastCall past{sequence_, call, fingerprint_, before, 0};
  past.ticket = begin(call);
  entry(sequence_) = past;
  return past;
}

PastCall CallHistory::begin_other(const CallSignature& call) {
  const std::lock_guard lock(mutex_);
  return {sequence_, call, fingerprint_, fingerprint_, begin(call)};
}

void CallHistory::end(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  take_ended();
  const auto time = now();
  if (ticket == 0) {
    auto unfinished = unfinished_;
    for (auto at = ticket_; unfinished > 0 && at > 0 && ticket_ - at < recorded; --at) {
      if (slots_[at % recorded].end != 0) continue;
      ticket = at;
      --unfinished;
    }
  }
  end_slot(ticket, time.time_since_epoch().count());
}

/// With the mutex held.
void CallHistory::end_slot(std::uint64_t ticket, std::int64_t time) {
  auto& slot = slots_[ticket % recorded];
  if (ticket != 0 && slot.ticket == ticket) slot.end = time;
  if (unfinished_ > 0) --unfinished_;
  since_ = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time));
}

void CallHistory::end_latest(std::uint64_t ticket) {
  ended_at_.store(now().time_since_epoch().count(), std::memory_order_relaxed);
  ended_.store(ticket, std::memory_order_release);
}

/// With the mutex held.
void CallHistory::take_ended() {
  const auto ticket = ended_.load(std::memory_order_acquire);
  if (ticket == 0) return;
  end_slot(ticket, ended_at_.load(std::memory_order_relaxed));
  ended_.store(0, std::memory_order_relaxed);
}

void CallHistory::note_awaited(std::uint64_t ticket, std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  awaiting_ticket_ = ticket;
  awaited_.swap(ranks);
}

std::vector<RecordedCall> CallHistory::record() const {
  const std::lock_guard lock(mutex_);
  const auto ended = ended_.load(std::memory_order_acquire);
  std::vector<RecordedCall> result;
  const auto count = std::min<std::uint64_t>(recorded, ticket_);
  for (auto ticket = ticket_ - count + 1; ticket <= ticket_; ++ticket) {
    const auto& slot = slots_[ticket % recorded];
    RecordedCall call{slot.sequence, slot.call, slot.begin, slot.end, {}};
    if (ticket == ended) call.end = ended_at_.load(std::memory_order_relaxed);
    if (ticket == awaiting_ticket_ && call.end == 0) call.awaited = awaited_;
    result.push_back(std::move(call));
  }
  return result;
}

Activity CallHistory::activity() const {
  const std::lock_guard lock(mutex_);
  const auto& latest = slots_[ticket_ % recorded];
  Activity result{.in_call = unfinished_ > 0,
                  .sequence = latest.sequence,
                  .call = latest.call,
                  .since = since_};
  if (ended_.load(std::memory_order_acquire) != 0) {
    result.in_call = unfinished_ > 1;
    result.since = std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(ended_at_.load(std::memory_order_relaxed)));
  }
  return result;
}

std::optional<PastCall> CallHistory::find(std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const auto& found = entry(sequence);
  if (sequence == 0 || found.sequence != sequence) return std::nullopt;
  return found;
}

std::vector<PastCall> CallHistory::latest(std::size_t max_count) const {
  const std::lock_guard lock(mutex_);
  const auto count = std::min<std::uint64_t>({max_count, ring_.size(), sequence_});
  std::vector<PastCall> result;
  for (auto sequence = sequence_ - count + 1; sequence <= sequence_; ++sequence) {
    result.push_back(entry(sequence));
  }
  return result;
}

std::optional<Difference> compare(const CallHistory& mine, const std::vector<PastCall>& theirs) {
  for (const auto& past : theirs) {
    const auto own = mine.find(past.sequence);
    if (!own || own->fingerprint == past.fingerprint) continue;
    if (own->call != past.call) return Difference{own->sequence, own->call, past.call};
    // The same call after different ones: the difference is older than both histories.
    return Difference{own->sequence - 1, std::nullopt, std::nullopt};
  }
  return std::nullopt;
}

}  // namespace tutti::control
