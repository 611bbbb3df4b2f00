#include "model/window.hpp"

#include <bit>

namespace tutti::model {

Window::Accesses Window::accesses_of(const algorithm::Step& step) {
  using algorithm::StepKind;
  Accesses accesses{.state = State::waiting, .kind = step.kind};
  if (algorithm::reads_from(step.kind)) {
    accesses.reads = step.from_region;
    accesses.reads_in = step.from;
  }
  if (algorithm::writes_to(step.kind)) {
    accesses.writes = step.region;
    accesses.writes_in = step.to;
  }
  const bool receives = step.kind == StepKind::recv || step.kind == StepKind::recv_reduce;
  if (step.kind == StepKind::send || receives) accesses.stream = 2 * step.peer + (receives ? 1 : 0);
  return accesses;
}

bool Window::conflict(const Accesses& earlier, const Accesses& later) noexcept {
  const bool same = later.writes_in == earlier.writes_in && later.writes.overlaps(earlier.writes);
  const bool before = later.writes_in == earlier.reads_in && later.writes.overlaps(earlier.reads);
  const bool after = later.reads_in == earlier.writes_in && later.reads.overlaps(earlier.writes);
  return same || before || after || algorithm::keeps_chunks_in_order(earlier.kind, later.kind);
}

std::size_t Window::refill() {
  if (at_end_ || count_ == max_) return none;
  const std::size_t slot = (first_ + count_) % size;
  Slot& s = slots_[slot];
  if (!cursor_.next(s.step)) {
    at_end_ = true;
    return none;
  }
  if (s.step.kind == algorithm::StepKind::publish) ++chunks_;
  s.chunk = chunks_ - 1;
  accesses_[slot] = accesses_of(s.step);
  s.waits_for = 0;
  s.until_done = 0;
  s.until_started = 0;
  link(slot);
  ++count_;
  return slot;
}

void Window::link(std::size_t slot) {
  Slot& s = slots_[slot];
  const std::uint64_t bit = std::uint64_t{1} << slot;
  const Accesses& mine = accesses_[slot];
  bool in_stream = mine.stream < 0;
  for (std::size_t back = count_; back-- > 0;) {
    const std::size_t other = (first_ + back) % size;
    const Accesses& theirs = accesses_[other];
    if (theirs.state == State::done) continue;
    if (conflict(theirs, mine)) {
      slots_[other].until_done |= bit;
      ++s.waits_for;
    }
    // The nearest step of the stream is enough: it starts after the earlier ones.
    if (in_stream || theirs.stream != mine.stream) continue;
    in_stream = true;
    if (theirs.state == State::started) continue;
    slots_[other].until_started |= bit;
    ++s.waits_for;
  }
}

std::uint64_t Window::release(std::uint64_t slots) {
  std::uint64_t ready = 0;
  for (; slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<std::size_t>(std::countr_zero(slots));
    if (--slots_[slot].waits_for == 0) ready |= std::uint64_t{1} << slot;
  }
  return ready;
}

std::uint64_t Window::start(std::size_t slot) {
  Slot& s = slots_[slot];
  accesses_[slot].state = State::started;
  const std::uint64_t waiting = s.until_started;
  s.until_started = 0;
  return release(waiting);
}

std::uint64_t Window::finish(std::size_t slot) {
  accesses_[slot].state = State::done;
  const std::uint64_t waiting = slots_[slot].until_done;
  slots_[slot].until_done = 0;
  const std::uint64_t ready = release(waiting);
  while (count_ > 0 && accesses_[first_].state == State::done) {
    first_ = (first_ + 1) % size;
    --count_;
  }
  return ready;
}

}  // namespace tutti::model
