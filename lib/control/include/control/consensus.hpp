#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "control/failure_report.hpp"

namespace tutti::control {

/// What a rank has agreed to, and not yet heard the end of.
struct Accepted {
  int leader = -1;
  std::uint32_t round = 0;
  FailureReport report;
};

/// One verdict for all that live. The lowest living rank leads: it gathers what was found, proposes
/// it to all, and once every living rank has agreed, commits it. A leader that dies is followed by
/// the next lowest rank; whoever has already committed says so when asked again, so that no two
/// ranks ever commit different verdicts. (The idea of ERA: Herault et al., "Practical scalable
/// consensus for pseudo-synchronous distributed systems", SC 2015; with acknowledgements sent
/// straight to the leader instead of up a tree.)
///
/// A rank that is stopped answers nobody, and nobody waits for it: past a short patience the next
/// rank leads in place of a silent leader, and a leader commits with more than half of the living.
/// The silent rank may have committed before it fell silent, so a new leader first asks what others
/// have accepted and proposes that, as in Paxos (Lamport, "The part-time parliament", ACM TOCS
/// 1998). A rank that goes on after a stop learns the verdict of the others.
///
/// Pure: time and messages come in, messages go out, so that a test can drive any number of ranks
/// in one thread.
class Consensus {
 public:
  struct Outbox {
    std::function<void(const FailureReport&)> send_evidence;  ///< to all
    /// To all. `asks_first`: nobody accepts the report yet, all say what they have accepted
    /// before.
    std::function<void(std::uint32_t round, bool asks_first, const FailureReport&)> propose;
    /// To `leader`. `round` is that of the proposal, or a higher one that this rank has promised.
    /// `earlier`: what this rank has accepted from a leader that may still commit it.
    std::function<void(int leader, std::uint32_t round,
                       const std::optional<FailureReport>& committed,
                       const std::optional<Accepted>& earlier)>
        acknowledge;
    std::function<void(std::uint32_t round, const FailureReport&)> commit;  ///< to all
    std::function<void()> gather_soon;                  ///< call gathered() after a short while
    std::function<void()> be_patient;                   ///< call impatient() after a longer while
    std::function<void(const FailureReport&)> decided;  ///< once: the verdict, on this rank
  };

  Consensus(int rank, int size, Outbox outbox);

  /// This rank found something itself.
  void found(const FailureReport& report);
  /// A rank, this one included, has said goodbye: it needs not agree any more and is never lost.
  void departed(int rank);

  /// Says again what has not led to a verdict: a link may not have stood, or a rank on the way may
  /// have gone. To be called now and then.
  void remind();
  /// The same, and the verdict where there is one: there is a new way to others.
  void repeat();

  void on_evidence(const FailureReport& report);
  void on_proposal(int leader, std::uint32_t round, bool asks_first, const FailureReport& report);
  void on_acknowledgement(int from, std::uint32_t round,
                          const std::optional<FailureReport>& committed,
                          const std::optional<Accepted>& earlier = {});
  /// `leader` is the rank that committed it.
  void on_commit(int leader, std::uint32_t round, const FailureReport& report);
  /// The time to wait for more evidence is over: several deaths at once are to be one verdict.
  void gathered();
  /// The time in which a rank that is neither stopped nor overloaded would have answered is over.
  void impatient();
  /// Nobody has agreed within the caller's limit: what this rank knows, or else `report`, is its
  /// verdict. The others are told, so that one of them that was stopped comes to the same.
  void decide_alone(const FailureReport& report);

  [[nodiscard]] const std::optional<FailureReport>& agreed_failure() const {
    return agreed_failure_;
  }
  [[nodiscard]] bool is_lost(int rank) const { return lost_.contains(rank); }
  /// All that have died, those after the verdict too.
  [[nodiscard]] const std::map<int, LossReason>& lost() const { return lost_; }

 private:
  [[nodiscard]] bool is_voter(int rank) const;
  [[nodiscard]] int leader() const;
  [[nodiscard]] std::uint32_t next_round() const;
  [[nodiscard]] int owner(std::uint32_t round) const;
  [[nodiscard]] bool may_still_commit(const Accepted& accepted) const;
  void learn(const FailureReport& report);
  void lead_if_due();
  [[nodiscard]] bool has_to_ask_first() const;
  void propose(const FailureReport& report, bool asks_first);
  void commit_if_agreed();
  void commit(const FailureReport& report);
  void decide(const FailureReport& report);

  int rank_;
  int size_;
  Outbox outbox_;
  std::map<int, LossReason> lost_;
  std::set<int> departed_;
  std::set<int> silent_;  ///< lower ranks that have not led when it was up to them
  std::optional<FailureReport> pending_;
  std::optional<FailureReport> proposed_;
  std::optional<FailureReport> agreed_failure_;
  std::optional<Accepted> accepted_;
  std::optional<FailureReport>
      overheard_;  ///< a dead leader's commit, too late; one that is silent may have it
  /// The highest round that this rank has agreed with or heard of: lower ones are over. Each rank
  /// has rounds of its own: 2 rank, 2 (rank + size), … to ask in, and the odd ones after them.
  std::optional<std::uint32_t> promised_;
  std::uint32_t round_ = 0;          ///< of proposed_
  bool asks_first_ = false;          ///< the same
  bool is_bound_ = false;            ///< proposed_ is what another leader may have committed
  std::optional<Accepted> earlier_;  ///< the latest that others have told of
  std::set<int> agreed_;
  bool gathering_ = false;
  bool waiting_ = false;  ///< for impatient()
  bool heard_ = false;    ///< a proposal, since the wait began
  int waits_ = 0;         ///< that were in vain
};

}  // namespace tutti::control
