#include "engine/lateness.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace tutti::engine {
namespace {

constexpr std::chrono::milliseconds activity_limit{300};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// How much a rank is to blame, worst first: a rank that waits in an earlier call may itself wait
/// for one that is worse.
enum class Blame : std::uint8_t { does_not_answer, outside_any_call, in_earlier_call, none };

struct Lag {
  Blame blame = Blame::none;
  std::uint64_t sequence = 0;
  std::string description;
};

/// In ranks of the job; a root or peer in another communicator, which this rank may not be in, is
/// left out.
std::string text_of(const control::Activity& activity, const control::Group& group) {
  if (!activity.elsewhere) return control::describe(activity.call, group);
  auto call = activity.call;
  call.root = -1;
  return describe(call) + " of another communicator";
}

Lag lag_of(int peer, std::uint64_t own_sequence, const control::Group& group,
           const std::map<int, control::Activity>& activities) {
  const auto found = activities.find(peer);
  if (found == activities.end()) {
    return {Blame::does_not_answer, 0,
            "does not answer (it is stopped, or its host is overloaded)"};
  }
  const auto& theirs = found->second;
  if (theirs.sequence >= own_sequence) return {};
  const auto age = seconds(std::chrono::steady_clock::now() - theirs.since);
  if (theirs.in_call && theirs.elsewhere) {
    return {Blame::in_earlier_call, theirs.sequence,
            fmt::format("is in {} since {:.1f} s", text_of(theirs, group), age)};
  }
  if (!theirs.in_call) {
    return {
        Blame::outside_any_call, theirs.sequence,
        fmt::format("has been outside any call for {:.1f} s, since call {}", age, theirs.sequence)};
  }
  return {Blame::in_earlier_call, theirs.sequence,
          fmt::format("is in {} since {:.1f} s (call {})", text_of(theirs, group), age,
                      theirs.sequence)};
}

bool is_one_way(Operation operation) {
  return operation == Operation::send || operation == Operation::recv;
}

/// Ranks of the job whose messages wait for each other in a circle, this one first; empty where
/// there is none.
std::vector<int> find_circle(const control::Group& group, const CallSignature& own,
                             const std::map<int, control::Activity>& activities) {
  const int self = group.world_of(group.rank);
  std::vector<int> circle{self};
  auto call = own;
  while (is_one_way(call.operation)) {
    const int next = group.world_of(call.root);
    if (next == self) {
      // A send and its recv wait for nobody but time.
      const bool fits = circle.size() == 2 && call.operation != own.operation;
      return fits || circle.size() == 1 ? std::vector<int>() : circle;
    }
    if (std::find(circle.begin(), circle.end(), next) != circle.end()) break;
    const auto found = activities.find(next);
    if (found == activities.end() || !found->second.in_call || found->second.elsewhere) break;
    call = found->second.call;
    if (call.root < 0 || call.root >= group.size()) break;
    circle.push_back(next);
  }
  return {};
}

}  // namespace

control::Finding find_late(control::Plane& plane, const LateCall& late,
                           const std::vector<Awaited>& awaited) {
  const auto& peers = plane.peers();
  const auto& call = late.call;
  const auto activities = plane.ask_activities(late.group->id, activity_limit);

  std::set<int> culprits;
  std::vector<std::string> reasons;
  if (const auto circle = find_circle(*late.group, call, activities); !circle.empty()) {
    for (const int rank : circle) {
      culprits.insert(rank);
      const auto& theirs = rank == peers.rank() ? call : activities.at(rank).call;
      reasons.push_back(
          fmt::format("{} in {}", peers.describe(rank), control::describe(theirs, *late.group)));
    }
    return {
        .code = ErrorCode::timeout,
        .culprits = culprits,
        .sentence = fmt::format(
            "{} was not done after {:g} s: ranks wait for each other in a circle: {}; let one "
            "of them take its other message first, or use send_recv",
            control::describe(call, *late.group), seconds(late.timeout), fmt::join(reasons, ", ")),
        .origin = peers.rank()};
  }
  const bool is_message = call.operation == Operation::send || call.operation == Operation::recv ||
                          call.operation == Operation::send_recv;
  const auto is_awaited = [&](int peer) {
    return std::any_of(awaited.begin(), awaited.end(),
                       [&](const Awaited& one) { return one.peer == peer; });
  };
  std::map<int, Lag> lags;
  auto worst = std::pair(Blame::none, std::uint64_t{0});
  for (const int peer : late.group->world) {
    if (peer == peers.rank() || plane.has_departed(peer)) continue;
    // A message concerns only its two ends.
    if (is_message && !is_awaited(peer)) continue;
    const auto& lag = lags[peer] = lag_of(peer, late.sequence, *late.group, activities);
    worst = std::min(worst, std::pair(lag.blame, lag.sequence));
  }
  for (const auto& [peer, lag] : lags) {
    if (lag.blame == Blame::none || lag.blame != worst.first) continue;
    if (lag.blame == Blame::in_earlier_call && lag.sequence != worst.second) continue;
    culprits.insert(peer);
    reasons.push_back(fmt::format("{}, which {}", peers.describe(peer), lag.description));
  }
  if (culprits.empty()) {
    for (const auto& [peer, receiving] : awaited) {
      if (!culprits.insert(peer).second) continue;
      const auto found = activities.find(peer);
      const auto doing = found == activities.end() ? std::string("has left")
                         : found->second.in_call   ? "is in " + text_of(found->second, *late.group)
                                                   : std::string("is outside any call");
      reasons.push_back(fmt::format("{}, which {}", peers.describe(peer), doing));
    }
  }
  if (reasons.empty()) reasons.emplace_back("work that all ranks have begun");
  return {.code = ErrorCode::timeout,
          .culprits = culprits,
          .sentence = fmt::format("{} (call {}) was not done after {:g} s: waiting for {}",
                                  control::describe(call, *late.group), late.sequence,
                                  seconds(late.timeout), fmt::join(reasons, "; ")),
          .origin = peers.rank()};
}

}  // namespace tutti::engine
