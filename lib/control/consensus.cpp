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

void Consensus::found(const FailureReport& original) {
  auto report = original;
  report.sentence.resize(std::min(report.sentence.size(), max_sentence_bytes));
  if (report.code == ErrorCode::peer_lost) {
    bool is_news = false;
    for (const auto& [rank, reason] : report.lost) is_news |= !lost_.contains(rank);
    if (!is_news) return;
  } else if (agreed_failure_ || pending_) {
    return;
  }
  learn(report);
  outbox_.send_evidence(report);
  lead_if_due();
}

void Consensus::departed(int rank) {
  departed_.insert(rank);
  // It may have been the leader, or the last whose word was missing.
  lead_if_due();
  commit_if_agreed();
}

void Consensus::learn(const FailureReport& report) {
  // A rank that hears of its own death has been cut off long enough for others to give it up; it
  // stays a voice of its own.
  if (report.lost.contains(rank_)) return;
  lost_.insert(report.lost.begin(), report.lost.end());
  pending_ = merge(pending_, report);
  if (agreed_failure_ || waiting_) return;
  waiting_ = true;
  outbox_.be_patient();
}

void Consensus::remind() {
  if (agreed_failure_ || !pending_ || departed_.contains(rank_)) return;
  if (leader() != rank_) return outbox_.send_evidence(*pending_);
  if (proposed_ && (is_bound_ || proposed_ == pending_)) {
    outbox_.propose(round_, asks_first_, *proposed_);
  }
}

void Consensus::repeat() {
  if (agreed_failure_) return commit(*agreed_failure_);
  remind();
}

void Consensus::on_evidence(const FailureReport& report) {
  learn(report);
  // Whoever still tells of it has not heard the verdict.
  if (agreed_failure_ && leader() == rank_) return commit(*agreed_failure_);
  lead_if_due();
}

void Consensus::lead_if_due() {
  if (leader() != rank_) return;
  if (agreed_failure_ && (!promised_ || owner(*promised_) != rank_)) {
    // Committed by an earlier leader. Ranks that have agreed with one in between leave that commit
    // alone, so it has to be said again.
    commit(*agreed_failure_);
  }
  if (agreed_failure_ || !pending_ || gathering_ || is_bound_) return;
  if (proposed_ == pending_) return;
  gathering_ = true;
  outbox_.gather_soon();
}

void Consensus::gathered() {
  gathering_ = false;
  if (agreed_failure_ || !pending_ || leader() != rank_ || is_bound_ || proposed_ == pending_)
    return;
  propose(*pending_, has_to_ask_first());
}

/// Not in a first round, unless another rank that lives may have led before.
bool Consensus::has_to_ask_first() const {
  if (!silent_.empty()) return true;
  return promised_ && !lost_.contains(owner(*promised_));
}

void Consensus::propose(const FailureReport& report, bool asks_first) {
  proposed_ = report;
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
                            const FailureReport& report) {
  learn(report);
  // After its goodbye this rank has no voice: nobody waits for it, so what it says could come too
  // late.
  if (departed_.contains(rank_)) return;
  if (promised_ && round < *promised_) {
    return outbox_.acknowledge(leader, *promised_, agreed_failure_, {});
  }
  promised_ = round;
  heard_ = true;
  silent_.erase(leader);
  std::optional<Accepted> earlier;
  if (!asks_first) {
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
  if (agreed_failure_ || !pending_ || departed_.contains(rank_)) return;
  ++waits_;
  if (leader() == rank_) {
    commit_if_agreed();
  } else if (!heard_) {
    silent_.insert(leader());
    lead_if_due();
  }
  heard_ = false;
  if (agreed_failure_) return;
  waiting_ = true;
  outbox_.be_patient();
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
  const bool is_majority = waits_ > 0 && 2 * agreed > living;
  const bool is_half = waits_ >= waits_for_half && 2 * agreed >= living;
  if (agreed < living && !is_majority && !is_half) return;
  if (asks_first_) {
    if (promised_ != round_) return propose(*pending_, true);  // another has asked since
    is_bound_ = earlier_.has_value();
    return propose(is_bound_ ? FailureReport(earlier_->report) : *pending_, false);
  }
  if (agreed < living && overheard_) return decide_alone(*overheard_);
  // In the round that all have agreed to, and no higher one: if this rank dies now, its successor's
  // round has to be above it.
  outbox_.commit(round_, *proposed_);
  decide(*proposed_);
}

/// What has been decided before, or must count whatever was promised.
void Consensus::commit(const FailureReport& report) {
  promised_ = next_round() + 1;
  outbox_.commit(*promised_, report);
}

void Consensus::on_commit(int leader, std::uint32_t round, const FailureReport& report) {
  // What a dead leader committed may still be on its way when its successor, whom all have told
  // that they had no verdict, commits another: then it must not count any more. Of one that lives
  // a successor has taken it over.
  if (agreed_failure_) return;
  if (promised_ && round < *promised_ && lost_.contains(leader)) {
    overheard_ = report;
    return;
  }
  promised_ = std::max(promised_.value_or(0), round);
  decide(report);
  lead_if_due();
}

void Consensus::decide_alone(const FailureReport& original) {
  if (agreed_failure_) return;
  auto report = original;
  report.sentence.resize(std::min(report.sentence.size(), max_sentence_bytes));
  if (pending_) report = *pending_;
  if (accepted_ && may_still_commit(*accepted_)) report = accepted_->report;
  if (overheard_) report = *overheard_;
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
