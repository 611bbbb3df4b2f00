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
  // Nobody sees whether NCCL's kernels wait, or are behind other work of the program.
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
  if (seen.has_ended_rank) {
    if (!ended_at_) ended_at_ = now;
    const bool waits_in_vain =
        seen.has_answered && now - std::max(waiting_since_, *ended_at_) >= waiting_limit;
    const bool may_wait_in_vain = (seen.has_open_at_nccl || !seen.has_answered) &&
                                  now - std::max(open_since_, *ended_at_) >= open_limit;
    return waits_in_vain || may_wait_in_vain ? Verdict::lost : Verdict::none;
  }
  if (seen.has_open && !is_reported_ && now - open_since_ >= timeout_) {
    is_reported_ = true;
    return Verdict::late;
  }
  return Verdict::none;
}

}  // namespace tutti::preload
