#include "support/schedule_checker/check_sets.hpp"

#include <algorithm>

namespace tutti::algorithm {

ContributorSets::ContributorSets(int ranks)
    : ranks_(ranks), words_((static_cast<std::size_t>(ranks) + 63) / 64) {
  bits_.resize(static_cast<std::size_t>(2 * ranks) * words_);
  const auto add = [this](Id set, int rank) {
    bits_[at(set) + static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << rank % 64;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    add(single(rank), rank);
    for (int upper = std::max(rank + 1, 2); upper <= ranks; ++upper) add(below(upper), rank);
  }
}

bool ContributorSets::same(Id a, Id b) const {
  const auto* const bits = bits_.data();
  return std::equal(bits + at(a), bits + at(a) + words_, bits + at(b));
}

bool ContributorSets::overlap(Id a, Id b) const {
  for (std::size_t word = 0; word < words_; ++word)
    if ((bits_[at(a) + word] & bits_[at(b) + word]) != 0) return true;
  return false;
}

std::optional<ContributorSets::Id> ContributorSets::join(Id a, Id b, bool disjoint) {
  const std::uint64_t pair = std::uint64_t{a} << 32 | b;
  if (pair == latest_pair_ && pair != 0) return latest_;
  const auto known = joined_.find(pair);
  if (known != joined_.end()) {
    latest_ = known->second;
  } else {
    if (disjoint && overlap(a, b)) return std::nullopt;
    latest_ = static_cast<Id>(bits_.size() / words_);
    bits_.resize(bits_.size() + words_);
    for (std::size_t word = 0; word < words_; ++word)
      bits_[at(latest_) + word] = bits_[at(a) + word] | bits_[at(b) + word];
    joined_.emplace(pair, latest_);
  }
  latest_pair_ = pair;
  return latest_;
}

bool ContributorSets::contains(Id set, int rank) const {
  return (bits_[at(set) + static_cast<std::size_t>(rank) / 64] >> rank % 64 & 1) != 0;
}

std::string ContributorSets::describe(Id set) const {
  std::string text;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!contains(set, rank)) continue;
    const int first = rank;
    while (rank + 1 < ranks_ && contains(set, rank + 1)) ++rank;
    text += (text.empty() ? "" : ", ") + std::to_string(first);
    if (rank > first) text += "-" + std::to_string(rank);
  }
  return text.empty() ? "nobody" : "ranks {" + text + "}";
}

}  // namespace tutti::algorithm
