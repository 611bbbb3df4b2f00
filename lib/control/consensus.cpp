#include "control/consensus.hpp"

#include <algorithm>

namespace tutti::control {

Consensus::Consensus(int rank, int size, Outbox outbox)
    : rank_(rank), size_(size), outbox_(std::move(outbox)) {}

int Consensus::leader() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (!lost_.contains(rank) && !departed_.contains(rank)) return rank;
  }
  return -1;
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
}

void Consensus::remind() {
  if (verdict_ || !pending_ || departed_.contains(rank_)) return;
  if (leader() != rank_) return outbox_.tell_evidence(*pending_);
  if (proposed_ == pending_) outbox_.propose(round_, *proposed_);
}

void Consensus::on_evidence(const Finding& finding) {
  learn(finding);
  // Whoever still tells of it has not heard the verdict.
  if (verdict_ && leader() == rank_) {
    promised_ = rank_;
    return outbox_.commit(*verdict_);
  }
  lead_if_due();
}

void Consensus::lead_if_due() {
  if (leader() != rank_) return;
  if (verdict_ && promised_ != rank_) {
    // Committed by an earlier leader. Ranks that have agreed with one in between leave that commit
    // alone, so it has to be said again.
    promised_ = rank_;
    outbox_.commit(*verdict_);
  }
  if (verdict_ || !pending_ || gathering_) return;
  if (proposed_ == pending_) return;
  gathering_ = true;
  outbox_.gather_soon();
}

void Consensus::gathered() {
  gathering_ = false;
  if (verdict_ || !pending_ || leader() != rank_ || proposed_ == pending_) return;
  proposed_ = pending_;
  promised_ = rank_;
  ++round_;
  agreed_ = {rank_};
  outbox_.propose(round_, *proposed_);
  commit_if_agreed();
}

void Consensus::on_proposal(int leader, std::uint32_t round, const Finding& finding) {
  learn(finding);
  // After its goodbye this rank has no voice: nobody waits for it, so what it says could come too
  // late.
  if (departed_.contains(rank_) || leader < promised_) return;
  promised_ = leader;
  outbox_.acknowledge(leader, round, verdict_);
  lead_if_due();
}

void Consensus::on_acknowledgement(int from, std::uint32_t round,
                                   const std::optional<Finding>& committed) {
  if (verdict_) return;
  if (committed) {
    outbox_.commit(*committed);
    decide(*committed);
    return;
  }
  if (round != round_) return;
  agreed_.insert(from);
  commit_if_agreed();
}

void Consensus::commit_if_agreed() {
  if (verdict_ || !proposed_ || leader() != rank_ || proposed_ != pending_) return;
  for (int rank = 0; rank < size_; ++rank) {
    if (!lost_.contains(rank) && !departed_.contains(rank) && !agreed_.contains(rank)) return;
  }
  outbox_.commit(*proposed_);
  decide(*proposed_);
}

void Consensus::on_commit(int leader, const Finding& finding) {
  // What a dead leader committed may still be on its way when its successor, whom all have told
  // that they had no verdict, commits another: then it must not count any more.
  if (verdict_ || leader < promised_) return;
  decide(finding);
  lead_if_due();
}

void Consensus::decide(const Finding& finding) {
  for (const auto& [rank, reason] : finding.lost) {
    if (rank != rank_) lost_.try_emplace(rank, reason);
  }
  verdict_ = finding;
  outbox_.decided(*verdict_);
}

}  // namespace tutti::control
