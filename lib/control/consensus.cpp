#include "control/consensus.hpp"

#include <algorithm>

namespace tutti::control {
namespace {

// With two ranks, a rank cannot distinguish a stopped peer from a slow one. Half of the ranks
// suffice only after this many timeouts.
constexpr int timeouts_for_half = 10;

}  // namespace

Consensus::Consensus(int rank, int size, Outbox outbox)
    : rank_(rank), size_(size), outbox_(std::move(outbox)) {}

bool Consensus::is_voter(int rank) const {
  return !lost_.contains(rank) && !departed_.contains(rank);
}

int Consensus::leader() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (is_voter(rank) && !unresponsive_.contains(rank)) return rank;
  }
  return -1;
}

std::uint32_t Consensus::next_round() const {
  const auto own = 2 * static_cast<std::uint32_t>(rank_);
  if (!promised_ || *promised_ < own) return own;
  const auto step = 2 * static_cast<std::uint32_t>(size_);
  return own + ((*promised_ - own) / step + 1) * step;
}

int Consensus::owner(std::uint32_t round) const {
  return static_cast<int>(round / 2 % static_cast<std::uint32_t>(size_));
}

/// A dead leader cannot commit any more, and ranks that received its commit say so.
bool Consensus::may_still_commit(const Accepted& accepted) const {
  return accepted.leader != rank_ && !lost_.contains(accepted.leader);
}

void Consensus::report_failure(const FailureReport& original) {
  auto report = original;
  report.sentence.resize(std::min(report.sentence.size(), max_sentence_bytes));
  if (report.code == ErrorCode::peer_lost) {
    bool is_new = false;
    for (const auto& [rank, reason] : report.lost) is_new |= !lost_.contains(rank);
    if (!is_new) return;
  } else if (agreed_failure_ || pending_) {
    return;
  }
  add_report(report);
  outbox_.send_evidence(report);
  lead_if_due();
}

void Consensus::departed(int rank) {
  departed_.insert(rank);
  // It may have been the leader, or the last rank whose acknowledgement was missing.
  lead_if_due();
  commit_if_agreed();
}

void Consensus::add_report(const FailureReport& report) {
  // This rank's own death is reported: others have given it up after a long disconnection. It
  // ignores that.
  if (report.lost.contains(rank_)) return;
  lost_.insert(report.lost.begin(), report.lost.end());
  pending_ = merge(pending_, report);
  if (agreed_failure_ || waiting_) return;
  waiting_ = true;
  outbox_.start_response_timer();
}

void Consensus::resend_pending() {
  if (agreed_failure_ || !pending_ || departed_.contains(rank_)) return;
  if (leader() != rank_) return outbox_.send_evidence(*pending_);
  if (proposed_ && (is_bound_ || proposed_ == pending_)) {
    outbox_.propose(round_, is_prepare_, *proposed_);
  }
}

void Consensus::resend() {
  if (agreed_failure_) return commit(*agreed_failure_);
  resend_pending();
}

void Consensus::on_evidence(const FailureReport& report) {
  add_report(report);
  // The sender has not received the agreed failure.
  if (agreed_failure_ && leader() == rank_) return commit(*agreed_failure_);
  lead_if_due();
}

void Consensus::lead_if_due() {
  if (leader() != rank_) return;
  if (agreed_failure_ && (!promised_ || owner(*promised_) != rank_)) {
    // An earlier leader committed it. Ranks that have since acknowledged another leader ignore that
    // commit, so commit again.
    commit(*agreed_failure_);
  }
  if (agreed_failure_ || !pending_ || gathering_ || is_bound_) return;
  if (proposed_ == pending_) return;
  gathering_ = true;
  outbox_.start_gather_timer();
}

void Consensus::on_gather_timeout() {
  gathering_ = false;
  if (agreed_failure_ || !pending_ || leader() != rank_ || is_bound_ || proposed_ == pending_)
    return;
  propose(*pending_, needs_prepare());
}

/// False in a first round, unless another living rank may have led before.
bool Consensus::needs_prepare() const {
  if (!unresponsive_.empty()) return true;
  return promised_ && !lost_.contains(owner(*promised_));
}

void Consensus::propose(const FailureReport& report, bool prepare) {
  proposed_ = report;
  // After phase 1 in a round, phase 2 uses the next one; no other rank has a round in between.
  const bool was_prepared = is_prepare_ && promised_ == round_;
  round_ = was_prepared && !prepare ? round_ + 1 : next_round() + (prepare ? 0 : 1);
  is_prepare_ = prepare;
  promised_ = round_;
  earlier_.reset();
  if (prepare) {
    if (accepted_ && may_still_commit(*accepted_)) earlier_ = accepted_;
  } else {
    accepted_ = Accepted{rank_, round_, *proposed_};
  }
  agreed_ = {rank_};
  outbox_.propose(round_, is_prepare_, *proposed_);
  commit_if_agreed();
}

void Consensus::on_proposal(int leader, std::uint32_t round, bool prepare,
                            const FailureReport& report) {
  add_report(report);
  // A rank that has left has no vote: no leader waits for it, so its answer could come too late.
  if (departed_.contains(rank_)) return;
  if (promised_ && round < *promised_) {
    return outbox_.acknowledge(leader, *promised_, agreed_failure_, {});
  }
  promised_ = round;
  got_proposal_ = true;
  unresponsive_.erase(leader);
  std::optional<Accepted> earlier;
  if (!prepare) {
    accepted_ = Accepted{leader, round, report};
  } else if (accepted_ && accepted_->leader != leader && may_still_commit(*accepted_)) {
    earlier = accepted_;
  }
  outbox_.acknowledge(leader, round, agreed_failure_, earlier);
  lead_if_due();
}

void Consensus::on_acknowledgement(int from, std::uint32_t round,
                                   const std::optional<FailureReport>& committed,
                                   const std::optional<Accepted>& earlier) {
  if (agreed_failure_) return;
  if (committed) {
    commit(*committed);
    return decide(*committed);
  }
  if (!proposed_ || leader() != rank_ || round < round_) return;
  if (round > round_) {
    // Rejected: that rank has promised a higher round to another leader.
    promised_ = std::max(promised_.value_or(0), round);
    is_bound_ = false;
    return propose(*pending_, true);
  }
  if (earlier && may_still_commit(*earlier) && (!earlier_ || earlier_->round < earlier->round)) {
    earlier_ = earlier;
  }
  agreed_.insert(from);
  commit_if_agreed();
}

void Consensus::on_response_timeout() {
  waiting_ = false;
  if (agreed_failure_ || !pending_ || departed_.contains(rank_)) return;
  ++response_timeouts_;
  if (leader() == rank_) {
    commit_if_agreed();
  } else if (!got_proposal_) {
    unresponsive_.insert(leader());
    lead_if_due();
  }
  got_proposal_ = false;
  if (agreed_failure_) return;
  waiting_ = true;
  outbox_.start_response_timer();
}

void Consensus::commit_if_agreed() {
  if (agreed_failure_ || !proposed_ || leader() != rank_) return;
  if (!is_bound_ && proposed_ != pending_) return;
  std::size_t living = 0;
  std::size_t agreed = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (!is_voter(rank)) continue;
    ++living;
    if (agreed_.contains(rank)) ++agreed;
  }
  const bool is_majority = response_timeouts_ > 0 && 2 * agreed > living;
  const bool is_half = response_timeouts_ >= timeouts_for_half && 2 * agreed >= living;
  if (agreed < living && !is_majority && !is_half) return;
  if (is_prepare_) {
    if (promised_ != round_) return propose(*pending_, true);  // another leader came since
    is_bound_ = earlier_.has_value();
    return propose(is_bound_ ? FailureReport(earlier_->report) : *pending_, false);
  }
  if (agreed < living && late_commit_) return decide_unilaterally(*late_commit_);
  // In the acknowledged round and no higher one: if this rank dies now, its successor's round must
  // be above it.
  outbox_.commit(round_, *proposed_);
  decide(*proposed_);
}

/// Commits what is decided already, whatever round was promised.
void Consensus::commit(const FailureReport& report) {
  promised_ = next_round() + 1;
  outbox_.commit(*promised_, report);
}

void Consensus::on_commit(int leader, std::uint32_t round, const FailureReport& report) {
  // A dead leader's commit may still be in flight when its successor, to which all ranks reported
  // no commit, commits another report: then it must be ignored. If the leader lives, its successor
  // has adopted its proposal.
  if (agreed_failure_) return;
  if (promised_ && round < *promised_ && lost_.contains(leader)) {
    late_commit_ = report;
    return;
  }
  promised_ = std::max(promised_.value_or(0), round);
  decide(report);
  lead_if_due();
}

void Consensus::decide_unilaterally(const FailureReport& original) {
  if (agreed_failure_) return;
  auto report = original;
  report.sentence.resize(std::min(report.sentence.size(), max_sentence_bytes));
  if (pending_) report = *pending_;
  if (accepted_ && may_still_commit(*accepted_)) report = accepted_->report;
  if (late_commit_) report = *late_commit_;
  commit(report);
  decide(report);
}

void Consensus::decide(const FailureReport& report) {
  for (const auto& [rank, reason] : report.lost) {
    if (rank != rank_) lost_.try_emplace(rank, reason);
  }
  agreed_failure_ = report;
  outbox_.decided(*agreed_failure_);
}

}  // namespace tutti::control
