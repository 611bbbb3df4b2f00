#include "control/consensus.hpp"

#include <algorithm>

namespace tutti::control {
namespace {

// Of two ranks, one cannot tell a stopped other from one that is about to say something else. So
// much patience has whoever runs.
constexpr int waits_for_half = 10;

}  // namespace

Consensus::Consensus(int rank, int size, Outbox outbox)
    : rank_(rank), size_(size), outbox_(std::move(outbox)) {}

bool Consensus::is_voter(int rank) const {
  return !lost_.contains(rank) && !departed_.contains(rank);
}

int Consensus::leader() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (is_voter(rank) && !silent_.contains(rank)) return rank;
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

/// A dead leader commits nothing any more, and who has heard of its commit says so.
bool Consensus::may_still_commit(const Accepted& accepted) const {
  return accepted.leader != rank_ && !lost_.contains(accepted.leader);
}

void Consensus::found(const Finding& original) {
  auto finding = original;
  finding.sentence.resize(std::min(finding.sentence.size(), most_sentence_bytes));
  if (finding.code == ErrorCode::peer_lost) {
    bool is_news = false;
    for (const auto& [rank, reason] : finding.lost) is_news |= !lost_.contains(rank);
    if (!is_news) return;
  } else if (verdict_ || pending_) {
    return;
  }
  learn(finding);
  outbox_.tell_evidence(finding);
  lead_if_due();
}

void Consensus::departed(int rank) {
  departed_.insert(rank);
  // It may have been the leader, or the last whose word was missing.
  lead_if_due();
  commit_if_agreed();
}

void Consensus::learn(const Finding& finding) {
  // A rank that hears of its own death has been cut off long enough for others to give it up; it
  // stays a voice of its own.
  if (finding.lost.contains(rank_)) return;
  lost_.insert(finding.lost.begin(), finding.lost.end());
  pending_ = merge(pending_, finding);
  if (verdict_ || waiting_) return;
  waiting_ = true;
  outbox_.be_patient();
}

void Consensus::remind() {
  if (verdict_ || !pending_ || departed_.contains(rank_)) return;
  if (leader() != rank_) return outbox_.tell_evidence(*pending_);
  if (proposed_ && (is_bound_ || proposed_ == pending_)) {
    outbox_.propose(round_, asks_first_, *proposed_);
  }
}

void Consensus::repeat() {
  if (verdict_) return commit(*verdict_);
  remind();
}

void Consensus::on_evidence(const Finding& finding) {
  learn(finding);
  // Whoever still tells of it has not heard the verdict.
  if (verdict_ && leader() == rank_) return commit(*verdict_);
  lead_if_due();
}

void Consensus::lead_if_due() {
  if (leader() != rank_) return;
  if (verdict_ && (!promised_ || owner(*promised_) != rank_)) {
    // Committed by an earlier leader. Ranks that have agreed with one in between leave that commit
    // alone, so it has to be said again.
    commit(*verdict_);
  }
  if (verdict_ || !pending_ || gathering_ || is_bound_) return;
  if (proposed_ == pending_) return;
  gathering_ = true;
  outbox_.gather_soon();
}

void Consensus::gathered() {
  gathering_ = false;
  if (verdict_ || !pending_ || leader() != rank_ || is_bound_ || proposed_ == pending_) return;
  propose(*pending_, has_to_ask_first());
}

/// Not in a first round, unless another rank that lives may have led before.
bool Consensus::has_to_ask_first() const {
  if (!silent_.empty()) return true;
  return promised_ && !lost_.contains(owner(*promised_));
}

void Consensus::propose(const Finding& finding, bool asks_first) {
  proposed_ = finding;
  // Who has asked in a round proposes in the next one, and nobody else can come in between.
  const bool has_asked = asks_first_ && promised_ == round_;
  round_ = has_asked && !asks_first ? round_ + 1 : next_round() + (asks_first ? 0 : 1);
  asks_first_ = asks_first;
  promised_ = round_;
  earlier_.reset();
  if (asks_first) {
    if (accepted_ && may_still_commit(*accepted_)) earlier_ = accepted_;
  } else {
    accepted_ = Accepted{rank_, round_, *proposed_};
  }
  agreed_ = {rank_};
  outbox_.propose(round_, asks_first_, *proposed_);
  commit_if_agreed();
}

void Consensus::on_proposal(int leader, std::uint32_t round, bool asks_first,
                            const Finding& finding) {
  learn(finding);
  // After its goodbye this rank has no voice: nobody waits for it, so what it says could come too
  // late.
  if (departed_.contains(rank_)) return;
  if (promised_ && round < *promised_) {
    return outbox_.acknowledge(leader, *promised_, verdict_, {});
  }
  promised_ = round;
  heard_ = true;
  silent_.erase(leader);
  std::optional<Accepted> earlier;
  if (!asks_first) {
    accepted_ = Accepted{leader, round, finding};
  } else if (accepted_ && accepted_->leader != leader && may_still_commit(*accepted_)) {
    earlier = accepted_;
  }
  outbox_.acknowledge(leader, round, verdict_, earlier);
  lead_if_due();
}

void Consensus::on_acknowledgement(int from, std::uint32_t round,
                                   const std::optional<Finding>& committed,
                                   const std::optional<Accepted>& earlier) {
  if (verdict_) return;
  if (committed) {
    commit(*committed);
    return decide(*committed);
  }
  if (!proposed_ || leader() != rank_ || round < round_) return;
  if (round > round_) {
    // Refused: that rank has promised a higher round to another.
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

void Consensus::impatient() {
  waiting_ = false;
  if (verdict_ || !pending_ || departed_.contains(rank_)) return;
  ++waits_;
  if (leader() == rank_) {
    commit_if_agreed();
  } else if (!heard_) {
    silent_.insert(leader());
    lead_if_due();
  }
  heard_ = false;
  if (verdict_) return;
  waiting_ = true;
  outbox_.be_patient();
}

void Consensus::commit_if_agreed() {
  if (verdict_ || !proposed_ || leader() != rank_) return;
  if (!is_bound_ && proposed_ != pending_) return;
  std::size_t living = 0;
  std::size_t agreed = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (!is_voter(rank)) continue;
    ++living;
    if (agreed_.contains(rank)) ++agreed;
  }
  const bool is_majority = waits_ > 0 && 2 * agreed > living;
  const bool is_half = waits_ >= waits_for_half && 2 * agreed >= living;
  if (agreed < living && !is_majority && !is_half) return;
  if (asks_first_) {
    if (promised_ != round_) return propose(*pending_, true);  // another has asked since
    is_bound_ = earlier_.has_value();
    return propose(is_bound_ ? Finding(earlier_->finding) : *pending_, false);
  }
  if (agreed < living && overheard_) return decide_alone(*overheard_);
  // In the round that all have agreed to, and no higher one: if this rank dies now, its successor's
  // round has to be above it.
  outbox_.commit(round_, *proposed_);
  decide(*proposed_);
}

/// What has been decided before, or must count whatever was promised.
void Consensus::commit(const Finding& finding) {
  promised_ = next_round() + 1;
  outbox_.commit(*promised_, finding);
}

void Consensus::on_commit(int leader, std::uint32_t round, const Finding& finding) {
  // What a dead leader committed may still be on its way when its successor, whom all have told
  // that they had no verdict, commits another: then it must not count any more. Of one that lives
  // a successor has taken it over.
  if (verdict_) return;
  if (promised_ && round < *promised_ && lost_.contains(leader)) {
    overheard_ = finding;
    return;
  }
  promised_ = std::max(promised_.value_or(0), round);
  decide(finding);
  lead_if_due();
}

void Consensus::decide_alone(const Finding& original) {
  if (verdict_) return;
  auto finding = original;
  finding.sentence.resize(std::min(finding.sentence.size(), most_sentence_bytes));
  if (pending_) finding = *pending_;
  if (accepted_ && may_still_commit(*accepted_)) finding = accepted_->finding;
  if (overheard_) finding = *overheard_;
  commit(finding);
  decide(finding);
}

void Consensus::decide(const Finding& finding) {
  for (const auto& [rank, reason] : finding.lost) {
    if (rank != rank_) lost_.try_emplace(rank, reason);
  }
  verdict_ = finding;
  outbox_.decided(*verdict_);
}

}  // namespace tutti::control
