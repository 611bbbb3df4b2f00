#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "control/finding.hpp"

namespace tutti::control {

/// One verdict for all that live. The lowest living rank leads: it gathers what was found, proposes
/// it to all, and once every living rank has agreed, commits it. A leader that dies is followed by
/// the next lowest rank; whoever has already committed says so when asked again, so that no two
/// ranks ever commit different verdicts. (The idea of ERA: Herault et al., "Practical scalable
/// consensus for pseudo-synchronous distributed systems", SC 2015; with acknowledgements sent
/// straight to the leader instead of up a tree.)
///
/// Pure: time and messages come in, messages go out, so that a test can drive any number of ranks
/// in one thread.
class Consensus {
 public:
  struct Outbox {
    std::function<void(const Finding&)> tell_evidence;                 ///< to all
    std::function<void(std::uint32_t round, const Finding&)> propose;  ///< to all
    std::function<void(int leader, std::uint32_t round,
                       const std::optional<Finding>& committed)>
        acknowledge;                              ///< to `leader`
    std::function<void(const Finding&)> commit;   ///< to all
    std::function<void()> gather_soon;            ///< call gathered() after a short while
    std::function<void(const Finding&)> decided;  ///< once: the verdict, on this rank
  };

  Consensus(int rank, int size, Outbox outbox);

  /// This rank found something itself.
  void found(const Finding& finding);
  /// A rank, this one included, has said goodbye: it needs not agree any more and is never lost.
  void departed(int rank);

  /// Says again what has not led to a verdict: a link may not have stood, or a rank on the way may
  /// have gone. To be called now and then.
  void remind();

  void on_evidence(const Finding& finding);
  void on_proposal(int leader, std::uint32_t round, const Finding& finding);
  void on_acknowledgement(int from, std::uint32_t round, const std::optional<Finding>& committed);
  /// `leader` is the rank that committed it.
  void on_commit(int leader, const Finding& finding);
  /// The time to wait for more evidence is over: several deaths at once are to be one verdict.
  void gathered();

  [[nodiscard]] const std::optional<Finding>& verdict() const { return verdict_; }
  [[nodiscard]] bool is_lost(int rank) const { return lost_.contains(rank); }
  /// All that have died, those after the verdict too.
  [[nodiscard]] const std::map<int, LossReason>& lost() const { return lost_; }

 private:
  [[nodiscard]] int leader() const;
  void learn(const Finding& finding);
  void lead_if_due();
  void commit_if_agreed();
  void decide(const Finding& finding);

  int rank_;
  int size_;
  int promised_ = -1;  ///< the highest leader that this rank has agreed with: earlier ones are over
  Outbox outbox_;
  std::map<int, LossReason> lost_;
  std::set<int> departed_;
  std::optional<Finding> pending_;
  std::optional<Finding> proposed_;
  std::optional<Finding> verdict_;
  std::uint32_t round_ = 0;
  std::set<int> agreed_;
  bool gathering_ = false;
};

}  // namespace tutti::control
