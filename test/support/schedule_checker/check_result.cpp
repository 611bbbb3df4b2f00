#include "support/schedule_checker/check_result.hpp"

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

std::string wrong_element(const CheckedRank& rank, const std::string& who, std::size_t index,
                          const ContributorSets& sets) {
  const Symbol& symbol = rank.memory(Buffer::output)[index];
  const Symbol& wanted = rank.wanted()[index];
  const std::string element = ": element " + std::to_string(index) + " of output ";
  if (symbol.set == 0) return who + element + "was never written";
  const std::string by = symbol.writer < 0 ? who + " from the start" : rank.name(symbol.writer);
  return by + element + "ends with contributions of " + sets.describe(symbol.set) + " instead of " +
         (sets.complete(wanted.set) ? "all" : sets.describe(wanted.set));
}

void require_output(const CheckedRank& rank, const std::string& who, const ContributorSets& sets) {
  const auto& output = rank.memory(Buffer::output);
  const auto& wanted = rank.wanted();
  // The last pair found to be the same.
  ContributorSets::Id good = 0;
  ContributorSets::Id good_wanted = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const ContributorSets::Id set = output[i].set;
    if (set == wanted[i].set || (set == good && wanted[i].set == good_wanted)) continue;
    if (set != 0 && sets.same(set, wanted[i].set)) {
      good = set;
      good_wanted = wanted[i].set;
      continue;
    }
    throw Fault(wrong_element(rank, who, i, sets));
  }
}

// Only data orders the steps of a barrier: the data in a rank's memory shows which ranks it has
// waited for.
void require_heard_all(const CheckedRank& rank, const std::string& who, ContributorSets& sets) {
  ContributorSets::Id received = 0;
  for (const Symbol& symbol : rank.memory(Buffer::scratch))
    if (symbol.set != 0) received = sets.join(received, symbol.set, false).value();
  if (sets.complete(received)) return;
  const auto last =
      rank.memory(Buffer::scratch).empty() ? -1 : rank.memory(Buffer::scratch).back().writer;
  throw Fault((last < 0 ? who : rank.name(last)) + ": leaves the barrier after hearing only of " +
              sets.describe(received));
}

}  // namespace

void require_all_finished(std::span<const CheckedRank> ranks) {
  constexpr int max_named = 4;
  std::string names = unmatched(ranks);
  if (!names.empty()) throw Fault(names);
  int blocked = 0;
  for (const CheckedRank& rank : ranks) {
    if (rank.finished() || ++blocked > max_named) continue;
    names += (blocked > 1 ? "; " : "") + rank.name(rank.oldest());
  }
  if (blocked == 0) return;
  if (blocked > max_named) names += "; and " + std::to_string(blocked - max_named) + " more";
  throw Fault("deadlock: " + names);
}

void require_expected(std::span<const CheckedRank> ranks, ContributorSets& sets,
                      const Expectation& expectation) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string who = "rank " + std::to_string(i);
    require_output(ranks[i], who, sets);
    if (expectation.operation == Operation::barrier) require_heard_all(ranks[i], who, sets);
  }
}

}  // namespace tutti::algorithm
