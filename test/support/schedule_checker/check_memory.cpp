#include "support/schedule_checker/check_memory.hpp"

#include <algorithm>
#include <utility>

#include "algorithm/blocks.hpp"

namespace tutti::algorithm {

namespace {

using Symbols = std::vector<Symbol>;

void append(Symbols& symbols, const Region& elements, ContributorSets::Id set) {
  for (std::int64_t element = elements.begin; element < elements.end; ++element)
    symbols.push_back({.element = static_cast<std::int32_t>(element), .set = set, .writer = -1});
}

Symbols symbols_of(const Region& elements, ContributorSets::Id set) {
  Symbols symbols;
  symbols.reserve(static_cast<std::size_t>(elements.length()));
  append(symbols, elements, set);
  return symbols;
}

class LayoutOfRank {
 public:
  LayoutOfRank(const Expectation& expectation, int rank, const ContributorSets& sets)
      : expectation_(expectation),
        rank_(rank),
        sets_(sets),
        at_root_(rank == expectation.root),
        in_place_(expectation.in_place_of.empty()
                      ? expectation.in_place
                      : expectation.in_place_of.at(static_cast<std::size_t>(rank))) {}

  CheckedMemory run() const {
    switch (expectation_.operation) {
      case Operation::broadcast:
      case Operation::fan_out:
        return broadcast();
      case Operation::all_reduce:
        return reduced(true);
      case Operation::scan:
        return scanned(rank_ + 1);
      case Operation::exclusive_scan:
        return scanned(rank_);
      case Operation::reduce:
        return reduced(at_root_);
      case Operation::all_gather:
      case Operation::all_gather_v:
        return gathered(true);
      case Operation::gather:
      case Operation::gather_v:
        return gathered(at_root_);
      case Operation::scatter:
      case Operation::scatter_v:
        return scattered();
      case Operation::reduce_scatter:
      case Operation::reduce_scatter_v:
        return reduced_and_scattered();
      case Operation::all_to_all:
      case Operation::all_to_all_v:
        return exchanged();
      default:
        return barrier();
    }
  }

 private:
  [[nodiscard]] ContributorSets::Id self() const { return sets_.single(rank_); }
  [[nodiscard]] ContributorSets::Id root() const { return sets_.single(expectation_.root); }
  [[nodiscard]] Region whole() const { return {0, expectation_.count}; }
  [[nodiscard]] Blocks blocks() const {
    return {sets_.ranks(), expectation_.count, expectation_.counts};
  }

  // `place` is the position of `own` in output, in place.
  static CheckedMemory arranged(bool in_place, Symbols own, Symbols wanted,
                                std::int64_t place = 0) {
    CheckedMemory memory;
    memory.in_place = in_place;
    memory.output.resize(wanted.size());
    memory.wanted = std::move(wanted);
    if (in_place)
      std::copy(own.begin(), own.end(), memory.output.begin() + place);
    else
      memory.input = std::move(own);
    return memory;
  }

  [[nodiscard]] CheckedMemory barrier() const {
    CheckedMemory memory;
    memory.in_place = true;
    memory.first_of_scratch.set = self();
    return memory;
  }

  [[nodiscard]] CheckedMemory broadcast() const {
    Symbols own;
    if (at_root_) append(own, whole(), root());
    return arranged(true, std::move(own), symbols_of(whole(), root()));
  }

  [[nodiscard]] CheckedMemory reduced(bool gets_it) const {
    Symbols own = symbols_of(whole(), self());
    if (!gets_it) return arranged(false, std::move(own), {});
    return arranged(in_place_, std::move(own), symbols_of(whole(), sets_.everyone()));
  }

  /// The sum of the lowest `ranks` ranks.
  [[nodiscard]] CheckedMemory scanned(int ranks) const {
    Symbols own = symbols_of(whole(), self());
    if (ranks == 0) return arranged(false, std::move(own), {});
    return arranged(in_place_, std::move(own), symbols_of(whole(), sets_.below(ranks)));
  }

  [[nodiscard]] CheckedMemory gathered(bool gets_it) const {
    const Region block = blocks().at(rank_);
    Symbols own = symbols_of(block, self());
    if (!gets_it) return arranged(false, std::move(own), {});
    Symbols wanted;
    for (int rank = 0; rank < sets_.ranks(); ++rank)
      append(wanted, blocks().at(rank), sets_.single(rank));
    return arranged(in_place_, std::move(own), std::move(wanted), block.begin);
  }

  [[nodiscard]] CheckedMemory scattered() const {
    const Region all{0, blocks().total()};
    if (!at_root_) return arranged(false, {}, symbols_of(blocks().at(rank_), root()));
    return arranged(in_place_, symbols_of(all, root()),
                    symbols_of(in_place_ ? all : blocks().at(rank_), root()));
  }

  [[nodiscard]] CheckedMemory reduced_and_scattered() const {
    const Region all{0, blocks().total()};
    const Region block = blocks().at(rank_);
    Symbols own = symbols_of(all, self());
    if (!in_place_) return arranged(false, std::move(own), symbols_of(block, sets_.everyone()));
    Symbols wanted = own;
    for (std::int64_t i = block.begin; i < block.end; ++i)
      wanted[static_cast<std::size_t>(i)].set = sets_.everyone();
    return arranged(true, std::move(own), std::move(wanted));
  }

  // The blocks that rank `from` sends to each rank.
  [[nodiscard]] Blocks blocks_of(int from) const {
    if (expectation_.operation == Operation::all_to_all) return blocks();
    return {sets_.ranks(), 0, expectation_.sent.at(static_cast<std::size_t>(from))};
  }

  [[nodiscard]] CheckedMemory exchanged() const {
    Symbols wanted;
    for (int rank = 0; rank < sets_.ranks(); ++rank)
      append(wanted, blocks_of(rank).at(rank_), sets_.single(rank));
    return arranged(in_place_ && expectation_.operation == Operation::all_to_all,
                    symbols_of({0, blocks_of(rank_).total()}, self()), std::move(wanted));
  }

  const Expectation& expectation_;
  int rank_;
  const ContributorSets& sets_;
  bool at_root_;
  bool in_place_;
};

}  // namespace

CheckedMemory checked_memory(const Expectation& expectation, int rank,
                             const ContributorSets& sets) {
  return LayoutOfRank(expectation, rank, sets).run();
}

}  // namespace tutti::algorithm
