#include "algorithm/rounds.hpp"

#include <utility>

namespace tutti::algorithm {

namespace {

bool same_but_for_outer(const Affine& a, const Affine& b) {
  return a.inner == b.inner && a.pass == b.pass;
}

bool same_form(const StepPattern& a, const StepPattern& b) {
  return a.kind == b.kind && a.to == b.to && a.from == b.from && a.length == b.length &&
         a.parts == b.parts && a.stride == b.stride && (a.peer < 0) == (b.peer < 0) &&
         same_but_for_outer(a.offset, b.offset) && same_but_for_outer(a.end, b.end) &&
         same_but_for_outer(a.from_shift, b.from_shift) &&
         same_but_for_outer(a.remote_shift, b.remote_shift);
}

bool continues(const Affine& loop, const Affine& round, std::int64_t count) {
  return round.start == loop.start + count * loop.outer;
}

bool continues(const StepPattern& loop, const StepPattern& round, std::int64_t count) {
  return continues(loop.offset, round.offset, count) && continues(loop.end, round.end, count) &&
         continues(loop.from_shift, round.from_shift, count) &&
         continues(loop.remote_shift, round.remote_shift, count) &&
         round.peer == loop.peer + static_cast<int>(count) * loop.peer_step;
}

// Sets the strides of a one-round loop from the second round.
void set_strides(StepPattern& loop, const StepPattern& second) {
  loop.offset.outer = second.offset.start - loop.offset.start;
  loop.end.outer = second.end.start - loop.end.start;
  loop.from_shift.outer = second.from_shift.start - loop.from_shift.start;
  loop.remote_shift.outer = second.remote_shift.start - loop.remote_shift.start;
  loop.peer_step = second.peer - loop.peer;
}

bool join(Loop& loop, const Loop& round) {
  if (loop.inner_count != round.inner_count || loop.steps.size() != round.steps.size())
    return false;
  for (std::size_t i = 0; i < loop.steps.size(); ++i) {
    if (!same_form(loop.steps[i], round.steps[i])) return false;
    if (loop.outer_count > 1 && !continues(loop.steps[i], round.steps[i], loop.outer_count))
      return false;
  }
  if (loop.outer_count == 1)
    for (std::size_t i = 0; i < loop.steps.size(); ++i) set_strides(loop.steps[i], round.steps[i]);
  ++loop.outer_count;
  return true;
}

}  // namespace

void append_round(Schedule& schedule, Loop round) {
  if (round.steps.empty() || round.inner_count == 0) return;
  if (!schedule.loops.empty() && join(schedule.loops.back(), round)) return;
  schedule.loops.push_back(std::move(round));
}

}  // namespace tutti::algorithm
