#include "call_watch.hpp"

#include <algorithm>

namespace tutti::preload {

void CallWatch::rest(Clock::time_point now) {
  open_since_ = now;
  waiting_since_ = now;
  is_reported_ = false;
}

CallWatch::Verdict CallWatch::look(Clock::time_point now, const SeenCalls& seen) {
  // What a rank sent before its end is there at once: a kernel that waits for so long waits in
  // vain.
  constexpr std::chrono::seconds waiting_limit{1};
  // Nobody sees whether NCCL's kernels wait, or are behind other work of the program. A rank that
  // ends in order has queued all that others need, as far as it knows.
  constexpr std::chrono::seconds open_limit{10};
  if (seen.has_answered) {
    const bool has_call_ended = seen.ended != answered_.ended;
    if (has_call_ended || !seen.has_open) {
      open_since_ = now;
      is_reported_ = false;
    }
    if (has_call_ended || seen.waits == answered_.waits) waiting_since_ = now;
    answered_ = seen;
  }
  if (seen.has_ended_rank && !ended_at_) ended_at_ = now;
  if (seen.has_lost_rank && !lost_at_) lost_at_ = now;
  const bool waits_in_vain =
      ended_at_ && seen.has_answered && now - std::max(waiting_since_, *ended_at_) >= waiting_limit;
  const bool may_wait_in_vain = lost_at_ && (seen.has_open_at_nccl || !seen.has_answered) &&
                                now - std::max(open_since_, *lost_at_) >= open_limit;
  if (waits_in_vain || may_wait_in_vain) return Verdict::lost;
  if (seen.has_open && !is_reported_ && now - open_since_ >= timeout_) {
    is_reported_ = true;
    return Verdict::late;
  }
  return Verdict::none;
}

}  // namespace tutti::preload
