#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/consensus.hpp"
#include "simulated_network.hpp"

namespace tutti::control::test {

/// A job whose ranks agree on a failure, connected as in Plane::Worker. Random choice replaces
/// time: any possible event can be next.
class SimulatedJob {
 public:
  SimulatedJob(int size, std::uint64_t seed)
      : network_(
            size, seed,
            [this](int rank, const ControlMessage& message) { on_message(rank, message); },
            [this](int rank, int peer) { lost(rank, peer, LossReason::connection_closed); }),
        departed_seen_(static_cast<std::size_t>(size)),
        timers_(static_cast<std::size_t>(size)),
        decided_(static_cast<std::size_t>(size)) {
    consensus_.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      consensus_.emplace_back(rank, size, outbox_of(rank));
      host_.push_back(static_cast<int>(network_.below(2)));
    }
  }

  /// Events at random times.
  void plan_death(int rank) { planned_.push_back({Plan::death, rank, {}}); }
  void plan_goodbye(int rank) { planned_.push_back({Plan::goodbye, rank, {}}); }
  void plan_report(int rank, const FailureReport& report) {
    planned_.push_back({Plan::report, rank, report});
  }
  /// The rank dies right after it has sent a commit, which only some ranks receive.
  void die_at_commit(int rank) { dies_at_commit_.insert(rank); }

  /// A rank's response timer expires at a random time, possibly while the others are still fast.
  void plan_response_timeout(int rank) { planned_.push_back({Plan::response_timeout, rank, {}}); }
  /// The rank stops: messages to it are queued until nothing else can happen.
  void plan_stop(int rank) { planned_.push_back({Plan::stop, rank, {}}); }

  /// Runs until no event is left. `settle`: then, while some rank has a report and no agreed
  /// failure, time passes: response timers expire and reports are resent.
  void run(bool settle = false) {
    happen();
    for (int round = 0; settle && round < 30; ++round) {
      if (round == 15) network_.resume();
      for (int rank = 0; rank < network_.size(); ++rank) {
        if (network_.is_dead(rank) || network_.is_stopped(rank)) continue;
        consensus_[index(rank)].resend_pending();
        if (response_timers_.erase(rank) > 0) consensus_[index(rank)].on_response_timeout();
      }
      happen();
      if (round == 14) before_resume_ = decided_;
    }
  }
  /// The decisions before the stopped ranks resumed.
  [[nodiscard]] const std::vector<FailureReport>& decided_before_resume(int rank) const {
    return before_resume_.at(index(rank));
  }
  [[nodiscard]] bool was_stopped(int rank) const { return stopped_.contains(rank); }

  void happen() {
    while (true) {
      std::vector<std::size_t> timers;
      for (std::size_t rank = 0; rank < timers_.size(); ++rank) {
        const auto one = static_cast<int>(rank);
        if (timers_[rank] == 0 || network_.is_dead(one) || network_.is_stopped(one)) continue;
        timers.push_back(rank);
      }
      const auto wires = network_.busy();
      const auto choices = wires + timers.size() + process_exits_.size() + planned_.size();
      if (choices == 0) return;
      auto choice = network_.below(choices);
      if (choice < wires) {
        network_.arrive(choice);
      } else if ((choice -= wires) < timers.size()) {
        --timers_[timers[choice]];
        consensus_[timers[choice]].on_gather_timeout();
      } else if ((choice -= timers.size()) < process_exits_.size()) {
        const auto [rank, peer] = take(process_exits_, choice);
        if (!network_.is_dead(rank) && !network_.is_stopped(rank)) {
          lost(rank, peer, LossReason::process_ended);
        }
      } else {
        carry_out(take(planned_, choice - process_exits_.size()));
      }
    }
  }

  [[nodiscard]] bool is_dead(int rank) const { return network_.is_dead(rank); }
  [[nodiscard]] const std::vector<FailureReport>& decided(int rank) const {
    return decided_[index(rank)];
  }
  [[nodiscard]] const std::set<int>& departed() const { return departed_; }

  /// Empty if all ranks that live and have not left have the same agreed failure, which lists no
  /// living rank as lost; else the error. Ranks that have left are not checked.
  [[nodiscard]] std::string fault() const {
    std::optional<FailureReport> agreed;
    for (int rank = 0; rank < network_.size(); ++rank) {
      if (network_.is_dead(rank) || departed_.contains(rank)) continue;
      const auto& own = decided(rank);
      const auto who = "rank " + std::to_string(rank);
      if (own.size() > 1) return who + " has decided twice";
      if (own.empty()) return who + " has no agreed failure";
      for (const auto& [failed_rank, reason] : own.front().lost) {
        if (!network_.is_dead(failed_rank)) {
          return who + " reports rank " + std::to_string(failed_rank) + " as lost, which is alive";
        }
      }
      if (agreed && *agreed != own.front()) {
        return who + " has another agreed failure (" + text(own.front()) + ") than a lower rank (" +
               text(*agreed) + ")";
      }
      agreed = own.front();
    }
    return {};
  }

  static std::string text(const FailureReport& report) {
    std::string result = name(report.code);
    for (const auto& [rank, reason] : report.lost) result += " " + std::to_string(rank);
    return result + " " + report.sentence;
  }

 private:
  struct Planned {
    enum Kind { death, goodbye, report, response_timeout, stop } kind;
    int rank;
    FailureReport what;
  };
  using Plan = Planned;
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  template <class T>
  static T take(std::vector<T>& from, std::size_t i) {
    T result = std::move(from[i]);
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
    return result;
  }
  static Bytes encode(const FailureReport& report) {
    ByteWriter writer;
    report.encode(writer);
    return std::move(writer).bytes();
  }

  Consensus::Outbox outbox_of(int rank) {
    return {
        .send_evidence =
            [this, rank](const FailureReport& report) {
              network_.send(rank, ControlMessageKind::evidence, all_ranks, encode(report));
            },
        .propose =
            [this, rank](std::uint32_t round, bool prepare, const FailureReport& report) {
              ByteWriter writer;
              writer.put(round).put(static_cast<std::uint8_t>(prepare));
              report.encode(writer);
              network_.send(rank, ControlMessageKind::proposal, all_ranks,
                            std::move(writer).bytes());
            },
        .acknowledge =
            [this, rank](int leader, std::uint32_t round,
                         const std::optional<FailureReport>& committed,
                         const std::optional<Accepted>& earlier) {
              network_.send(rank, ControlMessageKind::acknowledgement, leader,
                            encode_acknowledgement({round, committed, earlier}));
            },
        .commit =
            [this, rank](std::uint32_t round, const FailureReport& report) {
              ByteWriter writer;
              writer.put(round);
              report.encode(writer);
              network_.send(rank, ControlMessageKind::commit, all_ranks, std::move(writer).bytes());
              if (dies_at_commit_.contains(rank)) kill(rank);
            },
        .start_gather_timer = [this, rank] { ++timers_[index(rank)]; },
        .start_response_timer = [this, rank] { response_timers_.insert(rank); },
        .decided =
            [this, rank](const FailureReport& report) { decided_[index(rank)].push_back(report); }};
  }

  void on_message(int rank, const ControlMessage& message) {
    auto& consensus = consensus_[index(rank)];
    ByteReader reader(message.body);
    switch (message.kind) {
      case ControlMessageKind::evidence:
        return consensus.on_evidence(FailureReport::decode(reader, network_.size()).value());
      case ControlMessageKind::proposal: {
        const auto round = reader.get<std::uint32_t>();
        const bool prepare = reader.get<std::uint8_t>() != 0;
        return consensus.on_proposal(message.origin, round, prepare,
                                     FailureReport::decode(reader, network_.size()).value());
      }
      case ControlMessageKind::acknowledgement: {
        const auto decoded = decode_acknowledgement(message.body, network_.size()).value();
        return consensus.on_acknowledgement(message.origin, decoded.round, decoded.committed,
                                            decoded.earlier);
      }
      case ControlMessageKind::commit: {
        const auto round = reader.get<std::uint32_t>();
        return consensus.on_commit(message.origin, round,
                                   FailureReport::decode(reader, network_.size()).value());
      }
      default:
        departed_seen_[index(rank)].insert(message.origin);
        return consensus.departed(message.origin);
    }
  }

  void lost(int rank, int peer, LossReason reason) {
    auto& consensus = consensus_[index(rank)];
    if (departed_seen_[index(rank)].contains(peer) || consensus.is_lost(peer)) return;
    consensus.report_failure(
        {.code = ErrorCode::peer_lost, .lost = {{peer, reason}}, .origin = rank});
  }

  /// A rank that has left keeps forwarding messages until all have left.
  void kill(int rank) {
    if (departed_.contains(rank)) return;
    network_.kill(rank);
    for (int other = 0; other < network_.size(); ++other) {
      if (host_[index(other)] == host_[index(rank)] && other != rank) {
        process_exits_.emplace_back(other, rank);
      }
    }
  }

  void carry_out(const Planned& plan) {
    if (network_.is_dead(plan.rank) || network_.is_stopped(plan.rank)) return;
    switch (plan.kind) {
      case Planned::death:
        return kill(plan.rank);
      case Planned::goodbye:
        departed_.insert(plan.rank);
        network_.send(plan.rank, ControlMessageKind::goodbye, all_ranks, {});
        return consensus_[index(plan.rank)].departed(plan.rank);
      case Planned::report:
        return consensus_[index(plan.rank)].report_failure(plan.what);
      case Planned::response_timeout:
        if (response_timers_.erase(plan.rank) > 0)
          consensus_[index(plan.rank)].on_response_timeout();
        return;
      case Planned::stop:
        stopped_.insert(plan.rank);
        return network_.stop(plan.rank);
    }
  }

  SimulatedNetwork network_;
  std::vector<Consensus> consensus_;
  std::vector<int> host_;
  std::vector<std::set<int>> departed_seen_;
  std::set<int> departed_;
  std::vector<int> timers_;
  std::vector<std::pair<int, int>> process_exits_;  ///< observer, dead rank
  std::vector<Planned> planned_;
  std::set<int> dies_at_commit_;
  std::vector<std::vector<FailureReport>> decided_;
  std::vector<std::vector<FailureReport>> before_resume_;
  std::set<int> response_timers_;  ///< ranks with a running response timer
  std::set<int> stopped_;
};

}  // namespace tutti::control::test
