#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "control/failure_report.hpp"

namespace tutti::control {

/// A proposal that a rank has accepted and that is not committed yet.
struct Accepted {
  int leader = -1;
  std::uint32_t round = 0;
  FailureReport report;
};

/// Agreement on one failure report among all living ranks. The lowest living rank leads: it gathers
/// reports, proposes the merged report to all ranks, and commits it once every living rank has
/// acknowledged. If a leader dies, the next lowest rank follows; ranks that have committed say so
/// in their acknowledgement, so no two ranks commit different reports. (The idea of ERA: Herault et
/// al., "Practical scalable consensus for pseudo-synchronous distributed systems", SC 2015; with
/// acknowledgements sent directly to the leader instead of up a tree.)
/// A stopped rank does not block the others: after a short timeout the next rank takes over from an
/// unresponsive leader, and a leader commits with more than half of the living ranks. The
/// unresponsive rank may already have committed, so a new leader first asks what others have
/// accepted and proposes that, as in Paxos (Lamport, "The part-time parliament", ACM TOCS 1998). A
/// rank that resumes after a stop receives the agreed failure.
/// No I/O and no clock: timeouts and messages are arguments and callbacks, so a test can run any
/// number of ranks in one thread.
class Consensus {
 public:
  struct Outbox {
    std::function<void(const FailureReport&)> send_evidence;  ///< to all ranks
    /// To all ranks. `prepare`: phase 1; ranks do not accept the report yet and answer with what
    /// they accepted before.
    std::function<void(std::uint32_t round, bool prepare, const FailureReport&)> propose;
    /// To `leader`. `round` is the proposal's, or a higher one that this rank has promised.
    /// `earlier`: what this rank accepted from another leader that may still commit it.
    std::function<void(int leader, std::uint32_t round,
                       const std::optional<FailureReport>& committed,
                       const std::optional<Accepted>& earlier)>
        acknowledge;
    std::function<void(std::uint32_t round, const FailureReport&)> commit;  ///< to all ranks
    std::function<void()> start_gather_timer;  ///< call on_gather_timeout() after a short delay
    /// call on_response_timeout() after a longer delay
    std::function<void()> start_response_timer;
    std::function<void(const FailureReport&)> decided;  ///< called once, with the agreed failure
  };

  Consensus(int rank, int size, Outbox outbox);

  /// This rank has detected a failure.
  void report_failure(const FailureReport& report);
  /// A rank (possibly this one) has left the job: it takes no part in agreements and is never lost.
  void departed(int rank);

  /// Resends what has not led to an agreement yet: a link may have been missing, or a forwarding
  /// rank may have died. Call it periodically.
  void resend_pending();
  /// Also resends the agreed failure, if any: a new link is available.
  void resend();

  void on_evidence(const FailureReport& report);
  void on_proposal(int leader, std::uint32_t round, bool prepare, const FailureReport& report);
  void on_acknowledgement(int from, std::uint32_t round,
                          const std::optional<FailureReport>& committed,
                          const std::optional<Accepted>& earlier = {});
  /// `leader` is the rank that committed.
  void on_commit(int leader, std::uint32_t round, const FailureReport& report);
  /// The gather delay is over; it merges simultaneous deaths into one report.
  void on_gather_timeout();
  /// A rank that is neither stopped nor overloaded would have answered by now.
  void on_response_timeout();
  /// There was no agreement within the caller's limit: this rank decides by itself, on what it has
  /// received or else on `report`, and sends the result to the others, so that stopped ranks come
  /// to the same result.
  void decide_unilaterally(const FailureReport& report);

  [[nodiscard]] const std::optional<FailureReport>& agreed_failure() const {
    return agreed_failure_;
  }
  [[nodiscard]] bool is_lost(int rank) const { return lost_.contains(rank); }
  /// All dead ranks, including those that died after the agreement.
  [[nodiscard]] const std::map<int, LossReason>& lost() const { return lost_; }

 private:
  [[nodiscard]] bool is_voter(int rank) const;
  [[nodiscard]] int leader() const;
  [[nodiscard]] std::uint32_t next_round() const;
  [[nodiscard]] int owner(std::uint32_t round) const;
  [[nodiscard]] bool may_still_commit(const Accepted& accepted) const;
  void add_report(const FailureReport& report);
  void lead_if_due();
  [[nodiscard]] bool needs_prepare() const;
  void propose(const FailureReport& report, bool prepare);
  void commit_if_agreed();
  void commit(const FailureReport& report);
  void decide(const FailureReport& report);

  int rank_;
  int size_;
  Outbox outbox_;
  std::map<int, LossReason> lost_;
  std::set<int> departed_;
  std::set<int> unresponsive_;  ///< lower ranks that should have led and did not
  std::optional<FailureReport> pending_;
  std::optional<FailureReport> proposed_;
  std::optional<FailureReport> agreed_failure_;
  std::optional<Accepted> accepted_;
  std::optional<FailureReport>
      /// a commit of a dead leader that arrived too late; an unresponsive rank may have it
      late_commit_;
  /// The highest round that this rank has acknowledged or heard of; lower ones are over. Rank r
  /// owns rounds 2 r, 2 (r + size), … for phase 1 and the following odd ones for phase 2.
  std::optional<std::uint32_t> promised_;
  std::uint32_t round_ = 0;          ///< round of proposed_
  bool is_prepare_ = false;          ///< proposed_ is in phase 1
  bool is_bound_ = false;            ///< proposed_ may have been committed by another leader
  std::optional<Accepted> earlier_;  ///< the latest accepted proposal reported by others
  std::set<int> agreed_;
  bool gathering_ = false;
  bool waiting_ = false;       ///< the response timer runs
  bool got_proposal_ = false;  ///< a proposal arrived since the timer started
  int response_timeouts_ = 0;  ///< number of response timeouts
};

}  // namespace tutti::control
