// The protocols of the direct path as state machines of two ranks. All interleavings are visited,
// in a memory where the stores of a rank reach its peer in any order, but for those to one word and
// those that a fence keeps apart.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

/// Who sends in a round: bit 0 for rank 0, bit 1 for rank 1.
using Senders = std::vector<int>;

struct Variant {
  int slots = 2;
  bool waits_for_credits = true;
  /// Data and sequence number are one store; else two.
  bool one_store = true;
  /// With two stores: a fence between them.
  bool fence = false;
  /// By windows: the credit of a round is given at its begin, when the program no longer uses what
  /// the round before has put into the buffer.
  bool in_windows = false;
};

/// A word of a rank's memory, which only the other rank writes.
struct Word {
  enum Kind : int { data, sequence, credit };
  int kind;
  int slot;
  auto operator<=>(const Word&) const = default;
};

struct Store {
  std::vector<std::pair<Word, int>> words;  ///< become visible together
  bool after_earlier = false;               ///< not before all earlier ones
  auto operator<=>(const Store&) const = default;
};

struct Process {
  int round = 1;
  enum Step : int { begin, send, publish, receive, acknowledge } step = begin;
  std::map<Word, int> memory;
  std::deque<Store> under_way;  ///< its stores that the peer does not see yet
  auto operator<=>(const Process&) const = default;
};

using State = std::array<Process, 2>;

/// Visits all states; returns what went wrong first, or nothing.
class Explorer {
 public:
  Explorer(Variant variant, Senders senders) : variant_(variant), senders_(std::move(senders)) {}

  std::string run() {
    visit({});
    while (!pending_.empty() && wrong_.empty()) {
      const auto state = pending_.back();
      pending_.pop_back();
      const auto before = successors_;
      deliver(state);
      for (int rank = 0; rank < 2; ++rank) step(state, rank);
      const bool ended = finished(state[0]) && finished(state[1]);
      if (successors_ == before && !ended && wrong_.empty()) wrong_ = "all wait";
    }
    return wrong_;
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  [[nodiscard]] bool finished(const Process& process) const {
    return process.round > static_cast<int>(senders_.size());
  }
  [[nodiscard]] bool sends(int rank, int round) const {
    return (senders_[static_cast<std::size_t>(round - 1)] >> rank & 1) != 0;
  }
  static int value(const Process& process, Word word) {
    const auto found = process.memory.find(word);
    return found == process.memory.end() ? 0 : found->second;
  }

  void visit(const State& state) {
    ++successors_;
    if (seen_.insert(state).second) pending_.push_back(state);
  }

  /// One store of a rank becomes visible to the other.
  void deliver(const State& state) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const auto& stores = state[rank].under_way;
      for (std::size_t i = 0; i < stores.size(); ++i) {
        if (!may_overtake(stores, i)) continue;
        State next = state;
        for (const auto& [word, now] : stores[i].words) next[1 - rank].memory[word] = now;
        next[rank].under_way.erase(next[rank].under_way.begin() + static_cast<std::ptrdiff_t>(i));
        visit(next);
      }
    }
  }
  static bool may_overtake(const std::deque<Store>& stores, std::size_t index) {
    for (std::size_t earlier = 0; earlier < index; ++earlier) {
      if (stores[index].after_earlier) return false;
      for (const auto& [word, value] : stores[index].words) {
        for (const auto& [other, ignored] : stores[earlier].words) {
          if (word == other) return false;
        }
      }
    }
    return true;
  }

  void step(const State& state, int rank) {
    const auto& process = state[static_cast<std::size_t>(rank)];
    if (finished(process)) return;
    State next = state;
    auto& own = next[static_cast<std::size_t>(rank)];
    const int slot = process.round % variant_.slots;
    switch (process.step) {
      case Process::begin:
        own.step = Process::send;
        if (!variant_.in_windows) break;
        // The program has used the buffer until now.
        if (process.round > 1 && sends(1 - rank, process.round - 1) &&
            value(process, {Word::data, slot}) != process.round - 1) {
          wrong_ = "data is overwritten early";
        }
        if (sends(1 - rank, process.round)) {
          own.under_way.push_back({.words = {{{Word::credit, 0}, process.round}}});
        }
        break;
      case Process::send:
        own.step = Process::publish;
        if (sends(rank, process.round)) {
          const int credit = value(process, {Word::credit, 0});
          const int due = variant_.in_windows ? process.round : process.round - variant_.slots;
          if (variant_.waits_for_credits && credit < due) return;
          Store store{.words = {{{Word::data, slot}, process.round}}};
          if (variant_.one_store) store.words.push_back({{Word::sequence, slot}, process.round});
          own.under_way.push_back(store);
        }
        break;
      case Process::publish:
        own.step = Process::receive;
        if (sends(rank, process.round) && !variant_.one_store) {
          own.under_way.push_back({.words = {{{Word::sequence, slot}, process.round}},
                                   .after_earlier = variant_.fence});
        }
        break;
      case Process::receive:
        if (sends(1 - rank, process.round)) {
          if (value(process, {Word::sequence, slot}) != process.round) {
            // A later number can never turn back.
            if (value(process, {Word::sequence, slot}) > process.round) wrong_ = "data is lost";
            return;
          }
          if (value(process, {Word::data, slot}) != process.round) wrong_ = "wrong data";
        }
        own.step = Process::acknowledge;
        break;
      case Process::acknowledge:
        if (!variant_.in_windows) {
          own.under_way.push_back({.words = {{{Word::credit, 0}, process.round}}});
        }
        own.step = Process::begin;
        ++own.round;
        break;
    }
    visit(next);
  }

  Variant variant_;
  Senders senders_;
  std::set<State> seen_;
  std::vector<State> pending_;
  std::size_t successors_ = 0;
  std::string wrong_;
};

std::string explore(const Variant& variant, const Senders& senders) {
  Explorer explorer(variant, senders);
  auto wrong = explorer.run();
  CHECK(explorer.states() > 10);
  return wrong;
}

/// Both send (all_reduce), one sends (broadcast), and changes of the sender.
const std::vector<Senders> patterns{
    {3, 3, 3, 3, 3}, {1, 1, 1, 1, 1}, {1, 2, 1, 2, 1}, {1, 1, 1, 2, 3}, {3, 1, 1, 1, 2}};

}  // namespace

TEST_CASE("packets: no interleaving loses or mixes data, and none waits for ever") {
  for (const int slots : {1, 2, 4}) {
    for (const auto& senders : patterns) CHECK(explore({.slots = slots}, senders) == "");
  }
}

TEST_CASE("chunks: the same, with a fence between the data and the word that announces it") {
  for (const int slots : {1, 2}) {
    for (const auto& senders : patterns) {
      CHECK(explore({.slots = slots, .one_store = false, .fence = true}, senders) == "");
    }
  }
}

// What a rank reads from its peer's buffer is a chunk with one slot: the input, that it is there,
// and that it has been read.
TEST_CASE("windows: the same, and nothing is stored into a buffer that the program still uses") {
  for (const auto& senders : patterns) {
    CHECK(explore({.slots = 1, .one_store = false, .fence = true, .in_windows = true}, senders) ==
          "");
  }
}

TEST_CASE("the model sees what would go wrong without credits, one store, or a fence") {
  CHECK(explore({.waits_for_credits = false}, patterns[1]) != "");
  CHECK(explore({.one_store = false, .fence = false}, patterns[1]) == "wrong data");
  Variant windows{.slots = 1,
                  .waits_for_credits = false,
                  .one_store = false,
                  .fence = true,
                  .in_windows = true};
  CHECK(explore(windows, patterns[1]) != "");
  windows.waits_for_credits = true;
  windows.fence = false;
  CHECK(explore(windows, patterns[1]) == "wrong data");
}

}  // namespace tutti::device::test
