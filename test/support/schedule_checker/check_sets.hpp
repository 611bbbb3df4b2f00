#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti::algorithm {

/// Interned sets of ranks, identified by a number; 0 is the empty set.
class ContributorSets {
 public:
  using Id = std::uint32_t;

  explicit ContributorSets(int ranks);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Id single(int rank) const { return static_cast<Id>(rank) + 1; }
  /// The lowest `ranks` ranks, at least 1; same() accepts other ids of that set, too.
  [[nodiscard]] Id below(int ranks) const {
    return ranks == 1 ? single(0) : static_cast<Id>(ranks_ + ranks - 1);
  }
  [[nodiscard]] Id everyone() const { return below(ranks_); }
  [[nodiscard]] bool complete(Id set) const { return same(set, everyone()); }
  [[nodiscard]] bool same(Id a, Id b) const;
  /// The union; with `disjoint`, nothing if the two sets overlap.
  [[nodiscard]] std::optional<Id> join(Id a, Id b, bool disjoint);
  [[nodiscard]] bool overlap(Id a, Id b) const;
  [[nodiscard]] std::string describe(Id set) const;

 private:
  [[nodiscard]] bool contains(Id set, int rank) const;
  [[nodiscard]] std::size_t at(Id set) const { return set * words_; }

  int ranks_;
  std::size_t words_;
  std::vector<std::uint64_t> bits_;  // words_ for each set
  std::unordered_map<std::uint64_t, Id> joined_;
  // Adjacent elements behave alike, so the last answer is nearly always the next one.
  std::uint64_t latest_pair_ = 0;
  Id latest_ = 0;
};

}  // namespace tutti::algorithm
