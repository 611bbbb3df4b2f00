#include "support/schedule_checker/checker.hpp"

#include <algorithm>
#include <deque>
#include <random>

#include "support/schedule_checker/check_rank.hpp"
#include "support/schedule_checker/check_result.hpp"
#include "support/schedule_checker/check_sets.hpp"

namespace tutti::algorithm {

namespace {

// A possible next event: a transfer from rank to peer, or the step in `slot` of rank, which needs
// no link.
struct Event {
  int rank;
  int peer;  // -1: no transfer
  int slot;
};

// What a rank has published in a chunk: elements of one of its buffers.
struct Published {
  std::int64_t begin = 0;
  std::vector<Symbol> symbols;
};

// A rank's chunks, and its steps that wait for other ranks' chunks.
struct Chunks {
  std::vector<Published> published;
  std::size_t released = 0;
  std::vector<int> waiting;
};

// Chunks that a rank may open before its host has released them. A rank that can't allocate more
// has memory for one of maximum length.
constexpr std::size_t chunks_in_flight = 1;

// The send and the recv at the head of the stream from one rank to another.
struct Stream {
  int send_slot = -1;
  int recv_slot = -1;
};

class Run {
 public:
  Run(std::span<const Schedule> schedules, const Expectation& expectation,
      const CheckOptions& options)
      : size_(static_cast<int>(schedules.size())),
        expectation_(expectation),
        options_(options),
        random_(static_cast<std::minstd_rand::result_type>(options.seed)),
        sets_(size_),
        streams_(schedules.size() * schedules.size()),
        chunks_(schedules.size()) {
    ranks_.reserve(schedules.size());
    for (int rank = 0; rank < size_; ++rank)
      ranks_.emplace_back(rank, size_, schedules[static_cast<std::size_t>(rank)],
                          checked_memory(expectation, rank, sets_), options.window);
  }

  void to_the_end() {
    for (int rank = 0; rank < size_; ++rank) {
      ready_.clear();
      at(rank).admit(ready_);
      announce(rank);
    }
    while (!events_.empty()) {
      const Event event = choose();
      if (event.peer >= 0)
        transfer(event);
      else if (is_local(at(event.rank).slot(event.slot).step))
        local(event);
      else
        chunk_step(event);
    }
    require_all_finished(ranks_);
    for (int rank = 0; rank < size_; ++rank) {
      if (chunks(rank).released != at(rank).chunks())
        throw Fault("rank " + std::to_string(rank) + " has released " +
                    std::to_string(chunks(rank).released) + " of " +
                    std::to_string(at(rank).chunks()) + " chunks");
    }
    for (int rank = 1; rank < size_; ++rank) {
      for (int other = 0; other < rank; ++other) {
        if (are_neighbours(rank, other) && at(rank).chunks() != at(other).chunks()) {
          throw Fault("rank " + std::to_string(rank) + " has " + std::to_string(at(rank).chunks()) +
                      " chunks, rank " + std::to_string(other) + " of its host has " +
                      std::to_string(at(other).chunks()));
        }
      }
    }
    require_expected(ranks_, sets_, expectation_);
  }

 private:
  CheckedRank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Stream& stream(int from, int to) {
    return streams_[static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) +
                    static_cast<std::size_t>(to)];
  }
  Chunks& chunks(int rank) { return chunks_[static_cast<std::size_t>(rank)]; }
  bool are_neighbours(int rank, int other) const {
    const auto host_of = [this](int r) {
      return expectation_.host.empty() ? 0 : expectation_.host.at(static_cast<std::size_t>(r));
    };
    return host_of(rank) == host_of(other);
  }
  bool may_run(int rank, const CheckedRank::Slot& slot) {
    if (slot.step.kind == StepKind::release) return true;
    if (reads_published(slot.step.kind)) {
      if (!are_neighbours(rank, slot.step.peer))
        throw Fault(at(rank).name(slot) + ": that rank is on another host");
      return chunks(slot.step.peer).published.size() > slot.chunk;
    }
    for (int other = 0; other < size_; ++other) {
      if (other != rank && are_neighbours(rank, other) &&
          chunks(other).released + chunks_in_flight <= slot.chunk)
        return false;
    }
    return true;
  }
  bool may_overlap() const { return expectation_.operation == Operation::barrier; }

  Event choose() {
    if (options_.seed > 1) std::swap(events_[random_() % events_.size()], events_.back());
    const bool oldest = options_.seed == 0;
    const Event event = oldest ? events_.front() : events_.back();
    if (oldest)
      events_.pop_front();
    else
      events_.pop_back();
    return event;
  }

  // Turns the slots in ready_ into events.
  void announce(int rank) {
    for (const int index : ready_) {
      const Step& step = at(rank).slot(index).step;
      if (is_local(step)) {
        events_.push_back({rank, -1, index});
        continue;
      }
      if (step.kind >= StepKind::publish) {
        chunks(rank).waiting.push_back(index);
        announce_chunk_steps(rank);
        continue;
      }
      const bool sends = step.kind == StepKind::send;
      const int from = sends ? rank : step.peer;
      const int to = sends ? step.peer : rank;
      (sends ? stream(from, to).send_slot : stream(from, to).recv_slot) = index;
      announce_if_met(from, to);
    }
  }

  // Turns the waiting steps of a rank that may now run into events.
  void announce_chunk_steps(int rank) {
    std::erase_if(chunks(rank).waiting, [&](int index) {
      if (!may_run(rank, at(rank).slot(index))) return false;
      events_.push_back({rank, -1, index});
      return true;
    });
  }

  void announce_if_met(int from, int to) {
    const Stream& s = stream(from, to);
    if (s.send_slot >= 0 && s.recv_slot >= 0) events_.push_back({from, to, -1});
  }

  void finish(int rank, int slot) {
    ready_.clear();
    at(rank).finish(slot, ready_);
    announce(rank);
  }

  Symbol joined(CheckedRank& rank, const CheckedRank::Slot& slot, const Symbol& own,
                const Symbol& other) {
    if (own.element != other.element)
      throw Fault(rank.name(slot) + ": adds element " + std::to_string(other.element) +
                  " to element " + std::to_string(own.element));
    const auto set = sets_.join(own.set, other.set, !may_overlap());
    if (!set)
      throw Fault(rank.name(slot) + ": element " + std::to_string(own.element) + ": adds " +
                  sets_.describe(other.set) + " to " + sets_.describe(own.set));
    return {.element = own.element, .set = *set, .writer = -1};
  }

  // Element i of the result: part k must be the contribution of rank k alone.
  Symbol combined(const CheckedRank& rank, const CheckedRank::Slot& slot, std::int64_t i) const {
    const Step& step = slot.step;
    const auto part = [&](int k) -> const Symbol& {
      return rank.read(slot, step.from, step.from_region.begin + i + k * step.stride);
    };
    const std::int32_t element = part(0).element;
    for (int k = 0; k < step.parts; ++k) {
      if (part(k).set != sets_.single(k))
        throw Fault(rank.name(slot) + ": part " + std::to_string(k) + " has contributions of " +
                    sets_.describe(part(k).set));
      if (part(k).element != element)
        throw Fault(rank.name(slot) + ": part " + std::to_string(k) + " has element " +
                    std::to_string(part(k).element) + " beside element " + std::to_string(element));
    }
    return {.element = element, .set = sets_.below(step.parts), .writer = -1};
  }

  void local(const Event& event) {
    CheckedRank& rank = at(event.rank);
    const auto& slot = rank.slot(event.slot);
    const Step& step = slot.step;
    for (std::int64_t i = 0; i < step.region.length(); ++i) {
      if (step.kind == StepKind::combine) {
        rank.write(slot, step.to, step.region.begin + i, combined(rank, slot, i));
        continue;
      }
      Symbol symbol = rank.read(slot, step.from, step.from_region.begin + i);
      if (step.kind == StepKind::reduce)
        symbol = joined(rank, slot, rank.read(slot, step.to, step.region.begin + i), symbol);
      rank.write(slot, step.to, step.region.begin + i, symbol);
    }
    finish(event.rank, event.slot);
  }

  const Symbol& published(const CheckedRank& rank, const CheckedRank::Slot& slot, std::int64_t i) {
    const auto& chunk = chunks(slot.step.peer).published[slot.chunk];
    const auto index = slot.step.remote + i - chunk.begin;
    if (index < 0 || index >= static_cast<std::int64_t>(chunk.symbols.size()))
      throw Fault(rank.name(slot) + ": rank " + std::to_string(slot.step.peer) +
                  " has not published element " + std::to_string(slot.step.remote + i));
    return chunk.symbols[static_cast<std::size_t>(index)];
  }

  void chunk_step(const Event& event) {
    CheckedRank& rank = at(event.rank);
    const auto& slot = rank.slot(event.slot);
    const Step& step = slot.step;
    if (step.kind == StepKind::publish) {
      if (step.region.length() > expectation_.max_published)
        throw Fault(rank.name(slot) + ": publishes more than " +
                    std::to_string(expectation_.max_published) + " elements in one chunk");
      Published opened{.begin = step.region.begin, .symbols = {}};
      for (std::int64_t i = step.region.begin; i < step.region.end; ++i)
        opened.symbols.push_back(rank.read(slot, step.from, i));
      chunks(event.rank).published.push_back(std::move(opened));
    } else if (step.kind == StepKind::release) {
      auto& released = chunks(event.rank).released;
      if (released != slot.chunk)
        throw Fault(rank.name(slot) + ": releases chunk " + std::to_string(slot.chunk) + " after " +
                    std::to_string(released) + " others");
      released = slot.chunk + 1;
    } else {
      for (std::int64_t i = 0; i < step.region.length(); ++i) {
        auto symbol = published(rank, slot, i);
        if (step.kind == StepKind::read_reduce)
          symbol =
              joined(rank, slot, rank.read(slot, step.from, step.from_region.begin + i), symbol);
        rank.write(slot, step.to, step.region.begin + i, symbol);
      }
    }
    const bool may_free_others = !reads_published(step.kind);
    finish(event.rank, event.slot);
    for (int other = 0; may_free_others && other < size_; ++other) announce_chunk_steps(other);
  }

  void transfer(const Event& event) {
    Stream& s = stream(event.rank, event.peer);
    CheckedRank& sender = at(event.rank);
    CheckedRank& receiver = at(event.peer);
    auto& sent = sender.slot(s.send_slot);
    auto& taken = receiver.slot(s.recv_slot);
    const std::int64_t most =
        std::min(sent.step.region.length() - sent.moved, taken.step.region.length() - taken.moved);
    const std::int64_t amount = options_.seed > 1 && random_() % 4 == 0
                                    ? 1 + static_cast<std::int64_t>(random_()) % most
                                    : most;
    for (std::int64_t i = 0; i < amount; ++i) {
      const std::int64_t at = taken.moved + i;
      Symbol symbol = sender.read(sent, sent.step.from, sent.step.region.begin + sent.moved + i);
      if (taken.step.kind == StepKind::recv_reduce)
        symbol = joined(receiver, taken,
                        receiver.read(taken, taken.step.from, taken.step.from_region.begin + at),
                        symbol);
      receiver.write(taken, taken.step.to, taken.step.region.begin + at, symbol);
    }
    sent.moved += amount;
    taken.moved += amount;
    close(event, s, sent.moved == sent.step.region.length(),
          taken.moved == taken.step.region.length());
  }

  void close(const Event& event, Stream& s, bool all_sent, bool all_taken) {
    const Stream before = s;
    if (all_sent) s.send_slot = -1;
    if (all_taken) s.recv_slot = -1;
    announce_if_met(event.rank, event.peer);
    if (all_sent) finish(event.rank, before.send_slot);
    if (all_taken) finish(event.peer, before.recv_slot);
  }

  int size_;
  const Expectation& expectation_;
  const CheckOptions& options_;
  std::minstd_rand random_;
  ContributorSets sets_;
  std::vector<CheckedRank> ranks_;
  std::vector<Stream> streams_;
  std::vector<Chunks> chunks_;
  std::deque<Event> events_;
  std::vector<int> ready_;
};

}  // namespace

std::optional<std::string> check(std::span<const Schedule> all_ranks,
                                 const Expectation& expectation, const CheckOptions& options) {
  if (options.window < 1 || options.window > CheckedRank::max_window)
    throw std::invalid_argument("CheckOptions::window must be 1 to 64");
  try {
    Run(all_ranks, expectation, options).to_the_end();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return std::nullopt;
}

}  // namespace tutti::algorithm
