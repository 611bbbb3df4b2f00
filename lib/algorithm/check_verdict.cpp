#include "algorithm/check_verdict.hpp"

namespace tutti::algorithm {

namespace {

std::string unmatched(std::span<const CheckedRank> ranks) {
  for (const CheckedRank& rank : ranks) {
    if (rank.finished()) continue;
    const int peer = rank.oldest().step.peer;
    if (peer >= 0 && ranks[static_cast<std::size_t>(peer)].finished())
      return "unmatched: " + rank.name(rank.oldest()) + ": rank " + std::to_string(peer) +
             " has no step left for it";
  }
  return {};
}

// Whom the output of one rank should come from; 0 for nobody, nothing for everybody.
std::optional<ContributorSets::Id> expected_set(const Expectation& expectation, std::size_t rank,
                                                const ContributorSets& sets) {
  switch (expectation.operation) {
    case Operation::fan_out:
    case Operation::broadcast:
      return sets.single(expectation.root);
    case Operation::send_recv: {
      const int source = expectation.source.at(rank);
      return source < 0 ? 0 : sets.single(source);
    }
    default:
      return std::nullopt;
  }
}

std::string wrong_element(const CheckedRank& rank, const std::string& who, std::size_t index,
                          std::optional<ContributorSets::Id> wanted, const ContributorSets& sets) {
  const Symbol& symbol = rank.memory(Buffer::output)[index];
  const std::string element = ": element " + std::to_string(index) + " of output ";
  if (symbol.set == 0) return who + element + "was never written";
  const std::string by = symbol.writer < 0 ? who + " from the start" : rank.name(symbol.writer);
  return by + element + "ends with contributions of " + sets.describe(symbol.set) + " instead of " +
         (wanted ? sets.describe(*wanted) : "all");
}

void require_output(const CheckedRank& rank, const std::string& who,
                    std::optional<ContributorSets::Id> wanted, const ContributorSets& sets) {
  const auto& output = rank.memory(Buffer::output);
  ContributorSets::Id good = 0;  // the latest set that was found to be right
  for (std::size_t i = 0; i < output.size(); ++i) {
    const Symbol& symbol = output[i];
    if (symbol.set == good && good != 0) continue;
    if (wanted ? symbol.set == *wanted : sets.complete(symbol.set)) {
      good = symbol.set;
      continue;
    }
    throw Fault(wrong_element(rank, who, i, wanted, sets));
  }
}

// The steps of a barrier are ordered by nothing but data, so what has reached a rank's memory is
// what it has waited for.
void require_heard_all(const CheckedRank& rank, const std::string& who, ContributorSets& sets) {
  ContributorSets::Id heard = 0;
  for (const Symbol& symbol : rank.memory(Buffer::scratch))
    if (symbol.set != 0) heard = sets.join(heard, symbol.set, false).value();
  if (sets.complete(heard)) return;
  const auto last =
      rank.memory(Buffer::scratch).empty() ? -1 : rank.memory(Buffer::scratch).back().writer;
  throw Fault((last < 0 ? who : rank.name(last)) + ": leaves the barrier after hearing only of " +
              sets.describe(heard));
}

}  // namespace

void require_all_finished(std::span<const CheckedRank> ranks) {
  constexpr int most_named = 4;
  std::string names = unmatched(ranks);
  if (!names.empty()) throw Fault(names);
  int blocked = 0;
  for (const CheckedRank& rank : ranks) {
    if (rank.finished() || ++blocked > most_named) continue;
    names += (blocked > 1 ? "; " : "") + rank.name(rank.oldest());
  }
  if (blocked == 0) return;
  if (blocked > most_named) names += "; and " + std::to_string(blocked - most_named) + " more";
  throw Fault("deadlock: " + names);
}

void require_expected(std::span<const CheckedRank> ranks, ContributorSets& sets,
                      const Expectation& expectation) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string who = "rank " + std::to_string(i);
    if (expectation.operation == Operation::barrier)
      require_heard_all(ranks[i], who, sets);
    else
      require_output(ranks[i], who, expected_set(expectation, i, sets), sets);
  }
}

}  // namespace tutti::algorithm
