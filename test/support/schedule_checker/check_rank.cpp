#include "support/schedule_checker/check_rank.hpp"

#include <bit>

namespace tutti::algorithm {

namespace {

Region address(Buffer buffer, const Region& region) {
  constexpr std::int64_t buffer_span = std::int64_t{1} << 40;
  const std::int64_t base = static_cast<std::int64_t>(buffer) * buffer_span;
  return {base + region.begin, base + region.end};
}

bool conflict(const CheckedRank::Slot& earlier, const CheckedRank::Slot& later) {
  return keeps_chunks_in_order(earlier.step.kind, later.step.kind) ||
         (later.stream >= 0 && later.stream == earlier.stream) ||
         later.written.overlaps(earlier.written) || later.written.overlaps(earlier.read) ||
         later.written.overlaps(earlier.also_read) || later.read.overlaps(earlier.written) ||
         later.also_read.overlaps(earlier.written);
}

std::uint64_t bit(int index) {
  return std::uint64_t{1} << index;
}

}  // namespace

CheckedRank::CheckedRank(int rank, int size, const Schedule& schedule, CheckedMemory memory,
                         int window)
    : rank_(rank),
      size_(size),
      schedule_(schedule),
      in_place_(memory.in_place),
      window_(schedule.window == 0 ? window : std::min(window, schedule.window)),
      cursor_(schedule),
      memory_{std::move(memory.input), std::move(memory.output), {}},
      wanted_(std::move(memory.wanted)) {
  auto& scratch = memory_[static_cast<std::size_t>(Buffer::scratch)];
  scratch.resize(static_cast<std::size_t>(schedule.scratch_elements));
  if (!scratch.empty()) scratch[0] = memory.first_of_scratch;
}

void CheckedRank::admit(std::vector<int>& ready) {
  while (!exhausted_ && next_ < base_ + window_) {
    const int index = next_ % max_window;
    Slot& slot = slots_[static_cast<std::size_t>(index)];
    if (!cursor_.next(slot.step)) {
      exhausted_ = true;
      break;
    }
    slot.number = next_;
    slot.moved = 0;
    if (slot.step.kind == StepKind::publish) ++chunks_;
    slot.chunk = chunks_ - 1;
    require_sound(slot);
    note_what_it_touches(slot);
    slot.blockers = blockers_of(slot);
    pending_ |= bit(index);
    ++next_;
    if (slot.blockers == 0) ready.push_back(index);
  }
}

void CheckedRank::finish(int index, std::vector<int>& ready) {
  pending_ &= ~bit(index);
  for (std::uint64_t rest = pending_; rest != 0; rest &= rest - 1) {
    Slot& other = slots_[static_cast<std::size_t>(std::countr_zero(rest))];
    if ((other.blockers & bit(index)) == 0) continue;
    other.blockers &= ~bit(index);
    if (other.blockers == 0) ready.push_back(std::countr_zero(rest));
  }
  while (base_ < next_ && (pending_ & bit(base_ % max_window)) == 0) ++base_;
  admit(ready);
}

const CheckedRank::Slot& CheckedRank::oldest() const {
  return slots_[static_cast<std::size_t>(base_ % max_window)];
}

std::uint64_t CheckedRank::blockers_of(const Slot& slot) const {
  std::uint64_t blockers = 0;
  for (std::uint64_t rest = pending_; rest != 0; rest &= rest - 1) {
    const int index = std::countr_zero(rest);
    if (conflict(slots_[static_cast<std::size_t>(index)], slot)) blockers |= bit(index);
  }
  return blockers;
}

void CheckedRank::note_what_it_touches(Slot& slot) {
  const Step& step = slot.step;
  const bool on_a_link = step.peer >= 0 && !reads_published(step.kind);
  slot.stream = on_a_link ? 2 * step.peer + (writes_to(step.kind) ? 1 : 0) : -1;
  slot.written = slot.read = slot.also_read = {};
  if (writes_to(step.kind)) slot.written = address(step.to, step.region);
  if (reads_from(step.kind)) slot.read = address(step.from, step.from_region);
  if (step.kind == StepKind::reduce) slot.also_read = slot.written;
}

void CheckedRank::require_sound(const Slot& slot) const {
  const Step& step = slot.step;
  if (step.kind > StepKind::release)
    throw Fault(name(slot) + ": the checker does not know steps of this kind");
  const bool in_chunk = reads_published(step.kind) || step.kind == StepKind::release;
  if (in_chunk && chunks_ == 0) throw Fault(name(slot) + ": no chunk has been opened");
  const bool alone =
      is_local(step) || step.kind == StepKind::publish || step.kind == StepKind::release;
  if (!alone && (step.peer < 0 || step.peer >= size_ || step.peer == rank_))
    throw Fault(name(slot) + ": no such peer");
  if (alone && step.peer >= 0) throw Fault(name(slot) + ": needs no peer");
  if (writes_to(step.kind)) require_inside(slot, step.to, step.region);
  if (writes_to(step.kind) && step.to == Buffer::input)
    throw Fault(name(slot) + ": writes into input");
  if (reads_from(step.kind)) require_inside(slot, step.from, step.from_region);
  if (step.kind != StepKind::combine) return;
  if (step.parts < 1 || step.parts > size_)
    throw Fault(name(slot) + ": there are " + std::to_string(size_) + " ranks");
  if (step.to == step.from && step.region.overlaps(step.from_region))
    throw Fault(name(slot) + ": the result overlaps the parts");
}

void CheckedRank::require_inside(const Slot& slot, Buffer buffer, const Region& region) const {
  if (buffer == Buffer::input && in_place_)
    throw Fault(name(slot) + ": names input, but works in place");
  const auto length = static_cast<std::int64_t>(memory(buffer).size());
  if (region.begin < 0 || region.end > length)
    throw Fault(name(slot) + ": the buffer has " + std::to_string(length) + " elements");
}

const Symbol& CheckedRank::read(const Slot& slot, Buffer buffer, std::int64_t index) const {
  const Symbol& symbol = memory(buffer)[static_cast<std::size_t>(index)];
  if (symbol.set == 0)
    throw Fault(name(slot) + ": reads element " + std::to_string(index) +
                ", which nothing has written");
  return symbol;
}

void CheckedRank::write(const Slot& slot, Buffer buffer, std::int64_t index, Symbol symbol) {
  if (buffer == Buffer::output &&
      symbol.element != wanted_[static_cast<std::size_t>(index)].element)
    throw Fault(name(slot) + ": element " + std::to_string(symbol.element) + " ends as element " +
                std::to_string(wanted_[static_cast<std::size_t>(index)].element));
  symbol.writer = slot.number;
  memory_[static_cast<std::size_t>(buffer)][static_cast<std::size_t>(index)] = symbol;
}

std::string CheckedRank::name(const Slot& slot) const {
  return "rank " + std::to_string(rank_) + ", step " + std::to_string(slot.number) + " (" +
         describe(slot.step) + ")";
}

std::string CheckedRank::name(std::int32_t step_number) const {
  Cursor cursor(schedule_);
  Slot slot;
  for (slot.number = -1; slot.number < step_number && cursor.next(slot.step);) ++slot.number;
  return name(slot);
}

}  // namespace tutti::algorithm
