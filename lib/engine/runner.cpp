#include "engine/runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/lateness.hpp"

namespace tutti::engine {
namespace {

// How long a rank sleeps at most before it looks at its peers and its deadline again.
constexpr std::chrono::milliseconds nap{100};
// A broken data link alone proves no death: the control plane gets this long to say who died.
constexpr std::chrono::seconds verdict_limit{2};
constexpr std::chrono::milliseconds late_verdict_limit{500};

}  // namespace

void Runner::run(Execution& execution, const CallSignature& call, Deadline deadline,
                 std::chrono::nanoseconds timeout) {
  saw_broken_ = false;
  seen_departed_.clear();
  while (true) {
    if (plane_.failed()) {
      throw plane_.verdict_error().in(describe(call), plane_.history().activity().sequence);
    }
    if (execution.advance()) return;
    const bool moved =
        links_.progress(std::min<std::chrono::nanoseconds>(nap, deadline.remaining()));
    if (deadline.expired()) {
      if (execution.advance()) return;
      time_out(execution, call, timeout);
    }
    if (moved) continue;
    check_peers(execution, call);
  }
}

void Runner::fail(const control::Finding& finding, const CallSignature& call,
                  std::chrono::milliseconds limit) {
  throw plane_.report_and_wait(finding, limit)
      .in(describe(call), plane_.history().activity().sequence);
}

void Runner::check_peers(const Execution& execution, const CallSignature& call) {
  const auto& peers = plane_.peers();
  const auto seen_before = seen_departed_;
  for (const auto& [peer, receiving] : execution.awaited()) {
    const auto state = links_.state(peer, receiving);
    const bool over = !state.failure.empty();
    if (plane_.has_departed(peer) && (over || !state.made)) {
      // Its last connection may have come after this look at the link and before the look for the
      // goodbye: what is there is taken first.
      seen_departed_.insert(peer);
      if (!seen_before.contains(peer)) continue;
      fail({.code = ErrorCode::mismatch,
            .culprits = {peer},
            .sentence =
                fmt::format("{} waits in {} for {}, which has left: all ranks must make the "
                            "same calls before they destroy the communicator",
                            peers.describe(peers.rank()), describe(call), peers.describe(peer)),
            .origin = peers.rank()},
           call, late_verdict_limit);
    }
    if (!over) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!saw_broken_) {
      saw_broken_ = true;
      broken_since_ = now;
    }
    if (now - broken_since_ < verdict_limit) continue;
    fail({.code = ErrorCode::system,
          .culprits = {peer},
          .sentence = fmt::format("{} can't {} {}: {}", peers.describe(peers.rank()),
                                  receiving ? "receive from" : "send to", peers.describe(peer),
                                  state.failure),
          .origin = peers.rank()},
         call, late_verdict_limit);
  }
}

void Runner::time_out(const Execution& execution, const CallSignature& call,
                      std::chrono::nanoseconds timeout) {
  const auto finding = find_late(plane_, call, timeout, execution.awaited());
  if (plane_.failed()) {
    throw plane_.verdict_error().in(describe(call), plane_.history().activity().sequence);
  }
  fail(finding, call, late_verdict_limit);
}

}  // namespace tutti::engine
