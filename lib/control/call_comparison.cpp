#include "control/call_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "control/topology.hpp"

namespace tutti::control {
namespace {

constexpr std::size_t max_calls_sent = 16;

}  // namespace

void CallComparison::send_latest_to(int peer, std::uint32_t communicator) const {
  const auto history = histories_.find(communicator);
  if (!history) return;
  outbox_.send(peer, encode_calls(communicator, history->latest(max_calls_sent)));
}

void CallComparison::on_calls(int origin, CallsMessage message) {
  peer_calls_[{origin, message.communicator}] = std::move(message.calls);
  compare_with(origin, message.communicator);
}

void CallComparison::compare_with(int peer, std::uint32_t communicator) {
  const auto entry = peer_calls_.find({peer, communicator});
  if (entry == peer_calls_.end()) return;
  const auto history = histories_.find(communicator);
  if (!history || !history->group().has(peer)) {
    // The communicator does not exist here yet or any more.
    peer_calls_.erase(entry);
    return;
  }
  const auto difference = compare(*history, entry->second);
  if (difference) {
    outbox_.report(mismatch(peers_, history->group(), difference->sequence, peers_.rank(),
                            difference->mine, peer, difference->theirs));
  }
  // Kept while it has calls that this rank has not made yet.
  const auto latest = entry->second.empty() ? 0 : entry->second.back().sequence;
  if (difference || history->activity().sequence >= latest) peer_calls_.erase(entry);
}

void CallComparison::notify_neighbours(const CallHistory& history,
                                       std::chrono::steady_clock::time_point now,
                                       std::chrono::milliseconds min_wait) {
  const auto activity = history.activity();
  const auto& group = history.group();
  if (!activity.in_call || now - activity.since < min_wait) return;
  auto& sent_for = sent_for_[group.id];
  if (activity.sequence == sent_for) return;
  sent_for = activity.sequence;
  for (const int member : neighbours(group.rank, group.size())) {
    send_latest_to(group.world_of(member), group.id);
  }
}

void CallComparison::tick(std::chrono::steady_clock::time_point now,
                          std::chrono::milliseconds min_wait) {
  std::set<std::uint32_t> open;
  for (const auto& history : histories_.all()) {
    open.insert(history->group().id);
    notify_neighbours(*history, now, min_wait);
  }
  std::erase_if(sent_for_, [&](const auto& entry) { return !open.contains(entry.first); });
  std::vector<std::pair<int, std::uint32_t>> keys;
  for (const auto& [key, calls] : peer_calls_) keys.push_back(key);
  for (const auto& [peer, communicator] : keys) compare_with(peer, communicator);
}

FailureReport mismatch(const rendezvous::Peers& peers, const Group& group, std::uint64_t sequence,
                       int rank, const std::optional<CallSignature>& call, int other,
                       const std::optional<CallSignature>& other_call) {
  FailureReport report{
      .code = ErrorCode::mismatch, .failed_ranks = {rank, other}, .origin = peers.rank()};
  if (!call || !other_call) {
    report.sentence = fmt::format(
        "{} and {} have made different calls, at call {} or before: all ranks must make the same "
        "collective calls in the same order",
        peers.describe(std::min(rank, other)), peers.describe(std::max(rank, other)), sequence);
    return report;
  }
  // If nothing else differs, the algorithms do.
  auto same_algorithm = *other_call;
  same_algorithm.algorithm = call->algorithm;
  const auto text = [&](const CallSignature& which) {
    const auto algorithm = same_algorithm == *call ? fmt::format(" by the algorithm {}",
                                                                 algorithm_name(which.algorithm))
                                                   : std::string();
    return describe(which, group) + algorithm;
  };
  const bool in_order = rank < other;
  report.sentence =
      fmt::format("the ranks made different calls, call {}: {} called {}, {} called {}", sequence,
                  peers.describe(in_order ? rank : other), text(in_order ? *call : *other_call),
                  peers.describe(in_order ? other : rank), text(in_order ? *other_call : *call));
  return report;
}

}  // namespace tutti::control
