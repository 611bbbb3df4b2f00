#include "engine/timeout_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace tutti::engine {
namespace {

constexpr std::chrono::milliseconds answer_limit{300};
constexpr std::size_t max_unacknowledged_named = 4;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Severity, worst first. A rank that waits in an earlier call may itself wait for a worse one.
enum class Blame : std::uint8_t { does_not_answer, outside_any_call, in_earlier_call, none };

struct Lag {
  Blame blame = Blame::none;
  std::uint64_t sequence = 0;
  std::string description;
};

/// Data that a rank has sent and its peer has not acknowledged.
struct UnacknowledgedSend {
  int from = -1;
  control::UnacknowledgedData lost;
};

/// Diagnoses one timed-out call from the answers of all ranks.
class TimeoutDiagnosis {
 public:
  TimeoutDiagnosis(const rendezvous::Peers& peers, const PendingCall& pending,
                   const std::vector<Awaited>& awaited, const Answers& answers);

  [[nodiscard]] control::FailureReport find() const;

 private:
  [[nodiscard]] std::optional<control::FailureReport> find_deadlock() const;
  [[nodiscard]] std::optional<control::FailureReport> find_lost_data() const;
  [[nodiscard]] control::FailureReport find_lag() const;
  [[nodiscard]] control::FailureReport make(const std::set<int>& failed_ranks,
                                            std::string why) const;

  [[nodiscard]] std::vector<int> cycle() const;
  [[nodiscard]] Lag lag_of(int peer) const;
  [[nodiscard]] std::string describe_silence(int peer) const;
  [[nodiscard]] std::string doing(int peer) const;
  [[nodiscard]] std::string describe_call(const control::Activity& activity) const;
  [[nodiscard]] bool is_message() const;
  [[nodiscard]] bool is_awaited(int peer) const;
  [[nodiscard]] bool concerns(int rank) const;
  [[nodiscard]] const control::Activity* activity(int peer) const;
  [[nodiscard]] bool answers(int rank) const {
    return rank == peers_.rank() || answers_.statuses.contains(rank);
  }

  const rendezvous::Peers& peers_;
  const PendingCall& pending_;
  const std::vector<Awaited>& awaited_;
  const Answers& answers_;
  std::vector<UnacknowledgedSend> lost_;
};

TimeoutDiagnosis::TimeoutDiagnosis(const rendezvous::Peers& peers, const PendingCall& pending,
                                   const std::vector<Awaited>& awaited, const Answers& answers)
    : peers_(peers), pending_(pending), awaited_(awaited), answers_(answers) {
  const auto add = [&](int from, const std::vector<control::UnacknowledgedData>& all) {
    for (const auto& lost : all) {
      if (answers_.departed.contains(lost.peer) || lost.peer == from) continue;
      if (concerns(from) || concerns(lost.peer)) lost_.push_back({from, lost});
    }
  };
  add(peers.rank(), answers.own_unacknowledged);
  for (const auto& [rank, status] : answers.statuses) add(rank, status.unacknowledged);
}

const control::Activity* TimeoutDiagnosis::activity(int peer) const {
  const auto found = answers_.statuses.find(peer);
  return found == answers_.statuses.end() ? nullptr : &found->second.activity;
}

/// With ranks of the job. Omits the root or peer of a call in another communicator, which this rank
/// may not be a member of.
std::string TimeoutDiagnosis::describe_call(const control::Activity& activity) const {
  if (!activity.elsewhere) return control::describe(activity.call, *pending_.group);
  auto call = activity.call;
  call.root = -1;
  return describe(call) + " of another communicator";
}

std::string TimeoutDiagnosis::describe_silence(int peer) const {
  for (const auto& [from, lost] : lost_) {
    if (lost.peer != peer) continue;
    return fmt::format(
        "does not answer, and {}: its host, or the network on the way to it, is down",
        rendezvous::describe(lost.data, peers_.describe(from), "it"));
  }
  return "does not answer (it is stopped, or its host is overloaded)";
}

Lag TimeoutDiagnosis::lag_of(int peer) const {
  const auto* const theirs = activity(peer);
  if (theirs == nullptr) return {Blame::does_not_answer, 0, describe_silence(peer)};
  if (theirs->sequence >= pending_.begun.sequence) return {};
  const auto age = seconds(std::chrono::steady_clock::now() - theirs->since);
  if (theirs->in_call && theirs->elsewhere) {
    return {Blame::in_earlier_call, theirs->sequence,
            fmt::format("has been in {} for {:.1f} s", describe_call(*theirs), age)};
  }
  if (!theirs->in_call) {
    return {Blame::outside_any_call, theirs->sequence,
            theirs->sequence == 0
                ? std::string("is outside any call: it has made none yet")
                : fmt::format("has been outside any call for {:.1f} s, since call "
                              "{}",
                              age, theirs->sequence)};
  }
  return {Blame::in_earlier_call, theirs->sequence,
          fmt::format("has been in {} for {:.1f} s (call {})", describe_call(*theirs), age,
                      theirs->sequence)};
}

bool is_one_way(Operation operation) {
  return operation == Operation::send || operation == Operation::recv;
}

bool TimeoutDiagnosis::is_message() const {
  return is_one_way(pending_.begun.call.operation) ||
         pending_.begun.call.operation == Operation::send_recv;
}

bool TimeoutDiagnosis::is_awaited(int peer) const {
  return std::any_of(awaited_.begin(), awaited_.end(),
                     [&](const Awaited& one) { return one.peer == peer; });
}

/// A message concerns only its two ends.
bool TimeoutDiagnosis::concerns(int rank) const {
  return is_message() ? is_awaited(rank) : pending_.group->has(rank);
}

/// Returns the ranks of the job whose messages wait for each other, this one first; empty if there
/// is no cycle.
std::vector<int> TimeoutDiagnosis::cycle() const {
  const auto& group = *pending_.group;
  const int self = group.world_of(group.rank);
  std::vector<int> cycle{self};
  auto call = pending_.begun.call;
  while (is_one_way(call.operation) && call.root >= 0) {
    const int next = group.world_of(call.root);
    if (next == self) {
      // A send and its matching recv are no deadlock.
      const bool fits = cycle.size() == 2 && call.operation != pending_.begun.call.operation;
      return fits || cycle.size() == 1 ? std::vector<int>() : cycle;
    }
    if (std::find(cycle.begin(), cycle.end(), next) != cycle.end()) break;
    const auto* const theirs = activity(next);
    if (theirs == nullptr || !theirs->in_call || theirs->elsewhere) break;
    call = theirs->call;
    if (call.root < 0 || call.root >= group.size()) break;
    cycle.push_back(next);
  }
  return {};
}

control::FailureReport TimeoutDiagnosis::make(const std::set<int>& failed_ranks,
                                              std::string why) const {
  return {
      .code = ErrorCode::timeout,
      .failed_ranks = failed_ranks,
      .sentence = fmt::format("{} (call {}) timed out after {:g} s: {}", describe(pending_),
                              pending_.begun.sequence, seconds(pending_.timeout), std::move(why)),
      .origin = peers_.rank()};
}

std::optional<control::FailureReport> TimeoutDiagnosis::find_deadlock() const {
  const auto ranks = cycle();
  if (ranks.empty()) return std::nullopt;
  std::vector<std::string> reasons;
  for (const int rank : ranks) {
    const auto& theirs =
        rank == peers_.rank() ? pending_.begun.call : answers_.statuses.at(rank).activity.call;
    reasons.push_back(
        fmt::format("{} in {}", peers_.describe(rank), control::describe(theirs, *pending_.group)));
  }
  return control::FailureReport{
      .code = ErrorCode::timeout,
      .failed_ranks = {ranks.begin(), ranks.end()},
      .sentence = fmt::format(
          "{} timed out after {:g} s: deadlock: ranks wait for each other: {}; reorder the "
          "messages of one of them, or use send_recv",
          describe(pending_), seconds(pending_.timeout), fmt::join(reasons, ", ")),
      .origin = peers_.rank()};
}

/// Both ends answer over their control links, whose packets are small.
std::optional<control::FailureReport> TimeoutDiagnosis::find_lost_data() const {
  std::set<int> failed_ranks;
  std::vector<std::string> reasons;
  const UnacknowledgedSend* worst = nullptr;
  for (const auto& it : lost_) {
    if (!answers(it.lost.peer)) continue;
    if (worst == nullptr || it.lost.data.packet_bytes > worst->lost.data.packet_bytes) worst = &it;
    failed_ranks.insert({it.from, it.lost.peer});
    if (reasons.size() == max_unacknowledged_named) continue;
    reasons.push_back(rendezvous::describe(it.lost.data, peers_.describe(it.from),
                                           peers_.describe(it.lost.peer)));
  }
  if (worst == nullptr) return std::nullopt;
  const auto& from = peers_.info(worst->from).host.name;
  const auto& to = peers_.info(worst->lost.peer).host.name;
  const auto remedy =
      worst->lost.data.is_large()
          ? fmt::format("while small packets pass: {}",
                        rendezvous::mtu_remedy(worst->lost.data, from, to))
          : fmt::format(
                "although both ranks answer on another connection: check for lost packets "
                "(ip -s link) and for firewalls on {} and {}",
                from, to);
  return make(failed_ranks, fmt::format("{}, {}", fmt::join(reasons, "; "), remedy));
}

std::string TimeoutDiagnosis::doing(int peer) const {
  const auto* const theirs = activity(peer);
  if (theirs == nullptr) return "has left";
  return theirs->in_call ? "is in " + describe_call(*theirs) : "is outside any call";
}

control::FailureReport TimeoutDiagnosis::find_lag() const {
  std::set<int> failed_ranks;
  std::vector<std::string> reasons;
  std::map<int, Lag> lags;
  auto worst = std::pair(Blame::none, std::uint64_t{0});
  for (const int peer : pending_.group->world) {
    if (peer == peers_.rank() || answers_.departed.contains(peer) || !concerns(peer)) continue;
    const auto& lag = lags[peer] = lag_of(peer);
    worst = std::min(worst, std::pair(lag.blame, lag.sequence));
  }
  for (const auto& [peer, lag] : lags) {
    if (lag.blame == Blame::none || lag.blame != worst.first) continue;
    if (lag.blame == Blame::in_earlier_call && lag.sequence != worst.second) continue;
    failed_ranks.insert(peer);
    reasons.push_back(fmt::format("{}, which {}", peers_.describe(peer), lag.description));
  }
  if (failed_ranks.empty()) {
    for (const auto& one : awaited_) {
      if (!failed_ranks.insert(one.peer).second) continue;
      reasons.push_back(fmt::format("{}, which {}", peers_.describe(one.peer), doing(one.peer)));
    }
  }
  if (reasons.empty())
    reasons.emplace_back(
        "data of a call that all ranks have entered: the network or a rank "
        "is slow, or the timeout is too short for this size");
  return make(failed_ranks, fmt::format("waiting for {}", fmt::join(reasons, "; ")));
}

control::FailureReport TimeoutDiagnosis::find() const {
  if (auto cycle = find_deadlock()) return *std::move(cycle);
  // A rank that is behind, is in no call and has no part in the lost data is late by itself.
  const auto& world = pending_.group->world;
  const bool is_absent = std::any_of(world.begin(), world.end(), [this](int peer) {
    return peer != peers_.rank() && !answers_.departed.contains(peer) && concerns(peer) &&
           lag_of(peer).blame == Blame::outside_any_call &&
           std::none_of(lost_.begin(), lost_.end(), [peer](const UnacknowledgedSend& it) {
             return it.from == peer || it.lost.peer == peer;
           });
  });
  if (auto lost = is_absent ? std::nullopt : find_lost_data()) return *std::move(lost);
  return find_lag();
}

}  // namespace

std::string describe(const PendingCall& call) {
  return control::describe(call.begun.call, *call.group);
}

control::FailureReport diagnose_timeout(const rendezvous::Peers& peers, const PendingCall& pending,
                                        const std::vector<Awaited>& awaited,
                                        const Answers& answers) {
  return TimeoutDiagnosis(peers, pending, awaited, answers).find();
}

control::FailureReport make_timeout_report(const control::FailureDetector& detector,
                                           control::StatusExchange& statuses,
                                           const PendingCall& pending,
                                           const std::vector<Awaited>& awaited) {
  Answers answers{.statuses = statuses.ask(pending.group->id, answer_limit),
                  .own_unacknowledged = statuses.own(pending.group->id).unacknowledged,
                  .departed = {}};
  for (const int peer : pending.group->world) {
    if (detector.has_departed(peer)) answers.departed.insert(peer);
  }
  return diagnose_timeout(detector.peers(), pending, awaited, answers);
}

}  // namespace tutti::engine
