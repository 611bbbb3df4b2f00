#include "engine/runner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace tutti::engine {
namespace {

// How long a rank sleeps at most before it looks at its peers and its deadline again.
constexpr std::chrono::milliseconds nap{100};
// A broken data link alone proves no death: the control plane gets this long to say who died.
constexpr std::chrono::seconds verdict_limit{2};
constexpr std::chrono::milliseconds activity_limit{300};
constexpr std::chrono::milliseconds late_verdict_limit{500};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void Runner::run(Execution& execution, const CallSignature& call, Deadline deadline,
                 std::chrono::nanoseconds timeout) {
  saw_broken_ = false;
  while (true) {
    if (plane_.failed()) {
      throw plane_.verdict_error().in(describe(call), plane_.history().activity().sequence);
    }
    if (execution.advance()) return;
    if (links_.progress(std::min<std::chrono::nanoseconds>(nap, deadline.remaining()))) continue;
    if (deadline.expired()) time_out(execution, call, timeout);
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
  for (const auto& [peer, receiving] : execution.awaited()) {
    const auto state = links_.state(peer, receiving);
    const bool over = !state.failure.empty();
    if (plane_.has_departed(peer) && (over || !state.made)) {
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
  const auto& peers = plane_.peers();
  const auto own = plane_.history().activity();
  const auto activities = plane_.ask_activities(activity_limit);
  if (plane_.failed()) {
    throw plane_.verdict_error().in(describe(call), own.sequence);
  }

  // Whoever does not answer, or is behind, is to blame; only if nobody is, those whose data did not
  // come.
  std::set<int> culprits;
  std::vector<std::string> reasons;
  const auto age = [](const control::Activity& activity) {
    return seconds(std::chrono::steady_clock::now() - activity.since);
  };
  for (int peer = 0; peer < peers.size(); ++peer) {
    if (peer == peers.rank() || plane_.has_departed(peer)) continue;
    const auto found = activities.find(peer);
    if (found == activities.end()) {
      culprits.insert(peer);
      reasons.push_back(
          fmt::format("{}, which does not answer (it is stopped, or its host is overloaded)",
                      peers.describe(peer)));
    } else if (found->second.sequence < own.sequence) {
      const auto& theirs = found->second;
      culprits.insert(peer);
      reasons.push_back(
          theirs.in_call
              ? fmt::format("{}, which is in {} since {:.1f} s (call {})", peers.describe(peer),
                            describe(theirs.call), age(theirs), theirs.sequence)
              : fmt::format("{}, which has been outside any call for {:.1f} s, since call {}",
                            peers.describe(peer), age(theirs), theirs.sequence));
    }
  }
  if (culprits.empty()) {
    for (const auto& [peer, receiving] : execution.awaited()) {
      if (!culprits.insert(peer).second) continue;
      const auto found = activities.find(peer);
      const auto doing = found == activities.end() ? std::string("has left")
                         : found->second.in_call   ? "is in " + describe(found->second.call)
                                                   : std::string("is outside any call");
      reasons.push_back(fmt::format("{}, which {}", peers.describe(peer), doing));
    }
  }
  fail({.code = ErrorCode::timeout,
        .culprits = culprits,
        .sentence =
            fmt::format("{} (call {}) was not done after {:g} s: waiting for {}", describe(call),
                        own.sequence, seconds(timeout), fmt::join(reasons, "; ")),
        .origin = peers.rank()},
       call, late_verdict_limit);
}

}  // namespace tutti::engine
