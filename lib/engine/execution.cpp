#include "engine/execution.hpp"

#include <algorithm>

#include "base/copy.hpp"

namespace tutti::engine {
namespace {

using algorithm::Buffer;
using algorithm::Region;
using algorithm::Step;
using algorithm::StepKind;

// A call with large chunks may have needed one for each slot.
constexpr std::size_t max_kept_weighed = std::size_t{4} << 20;

struct Access {
  Buffer buffer = Buffer::output;
  Region region;
};

struct Accesses {
  std::array<Access, 2> reads;
  std::size_t read_count = 0;
  Access write;
  bool writes = false;
};

Accesses accesses_of(const Step& step) {
  Accesses result;
  const auto read = [&](Buffer buffer, const Region& region) {
    result.reads[result.read_count++] = {buffer, region};
  };
  if (algorithm::reads_from(step.kind)) read(step.from, step.from_region);
  if (step.kind == StepKind::reduce) read(step.to, step.region);
  result.writes = algorithm::writes_to(step.kind);
  if (result.writes) result.write = {step.to, step.region};
  return result;
}

bool is_send(const Step& step) {
  return step.kind == StepKind::send;
}
bool is_recv(const Step& step) {
  return step.kind == StepKind::recv || step.kind == StepKind::recv_reduce;
}

}  // namespace

Execution::Execution(const algorithm::Schedule& schedule, const Memory& memory, const Names& names,
                     transport::Links& links, PublishedChunks* chunks)
    : cursor_(schedule),
      max_in_flight_(window_of(schedule)),
      memory_(memory),
      call_(&names.call),
      world_(names.world),
      links_(links),
      chunks_(chunks) {}

std::size_t Execution::window_of(const algorithm::Schedule& schedule) {
  if (schedule.window == 0) return window;
  return std::min(window, static_cast<std::size_t>(schedule.window));
}

void Execution::restart(const algorithm::Schedule& schedule, const Memory& memory,
                        PublishedChunks* chunks) {
  chunks_ = chunks;
  opened_chunks_ = 0;
  has_moved_published_ = false;
  cursor_ = algorithm::Cursor(schedule);
  max_in_flight_ = window_of(schedule);
  memory_ = memory;
  first_ = 0;
  count_ = 0;
  cursor_at_end_ = false;
  if (weighed_bytes_ <= max_kept_weighed) return;
  for (auto& slot : slots_) {
    slot.weighed.reset();
    slot.weighed_bytes = 0;
  }
  weighed_bytes_ = 0;
}

bool Execution::advance() {
  bool changed = true;
  while (changed) {
    changed = reap();
    changed |= refill();
    changed |= start_ready();
  }
  return count_ == 0 && cursor_at_end_;
}

bool Execution::reap() {
  for (std::size_t i = 0; i < count_; ++i) {
    auto& slot = at(i);
    if (slot.state != State::started) continue;
    if (!(is_send(slot.step) ? slot.send.done() : slot.recv.done())) continue;
    slot.state = State::done;
    may_be_ready_ = true;
  }
  bool changed = false;
  while (count_ > 0 && at(0).state == State::done) {
    first_ = (first_ + 1) % window;
    --count_;
    changed = true;
  }
  return changed;
}

bool Execution::refill() {
  bool changed = false;
  while (count_ < max_in_flight_ && !cursor_at_end_) {
    auto& slot = at(count_);
    slot.state = State::waiting;
    if (!cursor_.next(slot.step)) {
      cursor_at_end_ = true;
      break;
    }
    if (slot.step.kind == StepKind::publish) ++opened_chunks_;
    slot.chunk = opened_chunks_ - 1;
    ++count_;
    changed = true;
  }
  may_be_ready_ |= changed;
  return changed;
}

bool Execution::start_ready() {
  bool changed = false;
  for (std::size_t i = 0; i < count_; ++i) {
    auto& slot = at(i);
    // A step waits for earlier ones only, so one pass finds all that have become ready.
    if (slot.state == State::waiting && (may_be_ready_ || changed) && is_ready(i)) {
      slot.state = State::ready;
    }
    if (slot.state == State::ready) changed |= start(slot);
  }
  may_be_ready_ = false;
  return changed;
}

bool Execution::is_ready(std::size_t i) const {
  const auto& step = at(i).step;
  const auto mine = accesses_of(step);
  const auto overlap = [this](const Access& a, const Access& b) {
    const auto base = [this](Buffer buffer) {
      // In place, input is an alias of output.
      return buffer == Buffer::input && memory_.input == memory_.output ? Buffer::output : buffer;
    };
    return base(a.buffer) == base(b.buffer) && a.region.overlaps(b.region);
  };
  for (std::size_t j = 0; j < i; ++j) {
    const auto& earlier = at(j);
    if (earlier.state == State::done) continue;
    const bool same_stream =
        earlier.step.peer == step.peer &&
        ((is_send(step) && is_send(earlier.step)) || (is_recv(step) && is_recv(earlier.step)));
    if (same_stream && earlier.state == State::waiting) return false;
    if (algorithm::keeps_chunks_in_order(earlier.step.kind, step.kind)) return false;
    const auto theirs = accesses_of(earlier.step);
    if (mine.writes && theirs.writes && overlap(mine.write, theirs.write)) return false;
    for (std::size_t k = 0; k < theirs.read_count; ++k) {
      if (mine.writes && overlap(mine.write, theirs.reads[k])) return false;
    }
    for (std::size_t k = 0; k < mine.read_count; ++k) {
      if (theirs.writes && overlap(mine.reads[k], theirs.write)) return false;
    }
  }
  return true;
}

std::byte* Execution::writable(Buffer buffer) const {
  return buffer == Buffer::scratch ? memory_.scratch : memory_.output;
}

const std::byte* Execution::readable(Buffer buffer) const {
  return buffer == Buffer::input ? memory_.input : writable(buffer);
}

bool Execution::is_contribution(Buffer buffer) const {
  const auto& contribution = memory_.contribution;
  return contribution && buffer == (contribution->is_output ? Buffer::output : Buffer::input);
}

/// Writes the part of the contribution that a step reads, scaled.
void Execution::weigh_into(std::byte* to, const Step& step) const {
  const auto& contribution = *memory_.contribution;
  const auto& weighed = contribution.weighed;
  const auto bytes = memory_.element_bytes;
  const auto all = step.from_region;
  const auto* const from = readable(step.from);
  const auto weigh_piece = [&](std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    weigh(to + static_cast<std::size_t>(begin - all.begin) * bytes,
          from + static_cast<std::size_t>(begin) * bytes, static_cast<std::size_t>(end - begin),
          contribution.type, contribution.weight);
  };
  if (!weighed.overlaps(all)) return weigh_piece(all.begin, all.end);
  const auto begin = std::max(all.begin, weighed.begin);
  const auto end = std::min(all.end, weighed.end);
  weigh_piece(all.begin, begin);
  copy_bytes(to + static_cast<std::size_t>(begin - all.begin) * bytes,
             from + static_cast<std::size_t>(begin) * bytes,
             static_cast<std::size_t>(end - begin) * bytes);
  weigh_piece(end, all.end);
}

/// Returns the elements that a step reads; those of a contribution are scaled first.
const std::byte* Execution::source(Slot& slot) {
  const auto& step = slot.step;
  const auto bytes = memory_.element_bytes;
  if (!is_contribution(step.from)) {
    return readable(step.from) + static_cast<std::size_t>(step.from_region.begin) * bytes;
  }
  const auto needed = static_cast<std::size_t>(step.from_region.length()) * bytes;
  if (slot.weighed_bytes < needed) {
    slot.weighed.reset(new std::byte[needed]);
    weighed_bytes_ += needed - slot.weighed_bytes;
    slot.weighed_bytes = needed;
  }
  weigh_into(slot.weighed.get(), step);
  return slot.weighed.get();
}

bool Execution::try_publish(Slot& slot) {
  const auto& step = slot.step;
  const auto begin = static_cast<std::size_t>(step.region.begin) * memory_.element_bytes;
  const auto bytes = static_cast<std::size_t>(step.region.length()) * memory_.element_bytes;
  auto* const to = chunks_->try_open(slot.chunk, begin, bytes);
  if (to == nullptr) return false;
  if (is_contribution(step.from)) {
    weigh_into(to, step);
  } else if (bytes != 0) {
    copy_bytes(to, readable(step.from) + begin, bytes);
  }
  chunks_->publish(slot.chunk);
  return true;
}

bool Execution::try_read(Slot& slot) {
  const auto& step = slot.step;
  const auto elements = static_cast<std::size_t>(step.region.length());
  const auto bytes = elements * memory_.element_bytes;
  const auto begin = static_cast<std::size_t>(step.remote) * memory_.element_bytes;
  const auto* const data = chunks_->find(step.peer, slot.chunk, begin, bytes);
  if (data == nullptr) return false;
  auto* const to =
      writable(step.to) + static_cast<std::size_t>(step.region.begin) * memory_.element_bytes;
  if (step.kind == StepKind::read_reduce) {
    memory_.reduce(to, source(slot), data, elements);
  } else {
    copy_bytes(to, data, bytes);
  }
  return true;
}

bool Execution::start(Slot& slot) {
  const auto& step = slot.step;
  if (step.kind == StepKind::publish || algorithm::reads_published(step.kind)) {
    if (!(step.kind == StepKind::publish ? try_publish(slot) : try_read(slot))) return false;
    slot.state = State::done;
    has_moved_published_ = true;
    return true;
  }
  if (step.kind == StepKind::release) {
    chunks_->release(slot.chunk);
    slot.state = State::done;
    return true;
  }
  const auto offset = static_cast<std::size_t>(step.region.begin) * memory_.element_bytes;
  const auto length = static_cast<std::size_t>(step.region.length()) * memory_.element_bytes;
  slot.state = State::started;
  if (is_send(step)) {
    slot.send = {.peer = world_of(step.peer), .call = call_, .from = {source(slot), length}};
    links_.post(slot.send);
  } else if (is_recv(step)) {
    slot.recv = {};
    slot.recv.peer = world_of(step.peer);
    slot.recv.call = call_;
    slot.recv.to = {writable(step.to) + offset, length};
    slot.recv.element_bytes = memory_.element_bytes;
    if (step.kind == StepKind::recv_reduce) {
      slot.recv.reduce = memory_.reduce;
      slot.recv.combine_with = source(slot);
    }
    links_.post(slot.recv);
  } else {
    run_local(slot);
    slot.state = State::done;
  }
  return true;
}

void Execution::run_local(Slot& slot) {
  const auto& step = slot.step;
  auto* const to =
      writable(step.to) + static_cast<std::size_t>(step.region.begin) * memory_.element_bytes;
  if (step.kind == StepKind::copy && is_contribution(step.from)) return weigh_into(to, step);
  const auto* const from = source(slot);
  const auto elements = static_cast<std::size_t>(step.region.length());
  if (step.kind == StepKind::reduce) {
    memory_.reduce(to, to, from, elements);
  } else if (step.kind == StepKind::combine) {
    memory_.combine(to, from, static_cast<std::size_t>(step.stride) * memory_.element_bytes,
                    static_cast<std::size_t>(step.parts), elements);
  } else if (to != from) {
    copy_bytes(to, from, elements * memory_.element_bytes);
  }
}

void Execution::add_awaited(std::vector<Awaited>& all) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const auto& slot = at(i);
    const auto& step = slot.step;
    if (slot.state == State::started) {
      all.push_back({world_of(step.peer), is_recv(step)});
    } else if (slot.state == State::ready) {
      if (algorithm::reads_published(step.kind)) all.push_back({world_of(step.peer), true, true});
      for (int rank = 0; step.kind == StepKind::publish && rank < std::ssize(world_); ++rank) {
        if (chunks_->delays_opening(rank)) all.push_back({world_of(rank), true, true});
      }
    }
  }
}

}  // namespace tutti::engine
