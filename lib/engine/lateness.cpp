#include "engine/lateness.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>

namespace tutti::engine {
namespace {

constexpr std::chrono::milliseconds activity_limit{300};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Why `peer` is to blame; empty if it is not.
std::string lag(int peer, std::uint64_t own_sequence,
                const std::map<int, control::Activity>& activities) {
  const auto found = activities.find(peer);
  if (found == activities.end()) {
    return "does not answer (it is stopped, or its host is overloaded)";
  }
  const auto& theirs = found->second;
  if (theirs.sequence >= own_sequence) return {};
  const auto age = seconds(std::chrono::steady_clock::now() - theirs.since);
  return theirs.in_call ? fmt::format("is in {} since {:.1f} s (call {})", describe(theirs.call),
                                      age, theirs.sequence)
                        : fmt::format("has been outside any call for {:.1f} s, since call {}", age,
                                      theirs.sequence);
}

}  // namespace

control::Finding find_late(control::Plane& plane, const CallSignature& call,
                           std::chrono::nanoseconds timeout, const std::vector<Awaited>& awaited) {
  const auto& peers = plane.peers();
  const auto own = plane.history().activity();
  const auto activities = plane.ask_activities(activity_limit);

  std::set<int> culprits;
  std::vector<std::string> reasons;
  for (int peer = 0; peer < peers.size(); ++peer) {
    if (peer == peers.rank() || plane.has_departed(peer)) continue;
    const auto reason = lag(peer, own.sequence, activities);
    if (reason.empty()) continue;
    culprits.insert(peer);
    reasons.push_back(fmt::format("{}, which {}", peers.describe(peer), reason));
  }
  if (culprits.empty()) {
    for (const auto& [peer, receiving] : awaited) {
      if (!culprits.insert(peer).second) continue;
      const auto found = activities.find(peer);
      const auto doing = found == activities.end() ? std::string("has left")
                         : found->second.in_call   ? "is in " + describe(found->second.call)
                                                   : std::string("is outside any call");
      reasons.push_back(fmt::format("{}, which {}", peers.describe(peer), doing));
    }
  }
  if (reasons.empty()) reasons.emplace_back("work that all ranks have begun");
  return {.code = ErrorCode::timeout,
          .culprits = culprits,
          .sentence =
              fmt::format("{} (call {}) was not done after {:g} s: waiting for {}", describe(call),
                          own.sequence, seconds(timeout), fmt::join(reasons, "; ")),
          .origin = peers.rank()};
}

}  // namespace tutti::engine
