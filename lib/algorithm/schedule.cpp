#include "algorithm/schedule.hpp"

#include <algorithm>

namespace tutti::algorithm {

namespace {

bool names_a_slot(StepKind kind) {
  return kind == StepKind::publish || kind == StepKind::await;
}

bool has_own_source(StepKind kind) {
  return kind == StepKind::copy || kind == StepKind::reduce;
}

Step expand(const StepPattern& pattern, std::int64_t i, std::int64_t j) {
  const std::int64_t begin = pattern.offset.at(i, j);
  const std::int64_t end =
      names_a_slot(pattern.kind) ? begin : std::min(begin + pattern.length, pattern.end.at(i, j));
  const std::int64_t shift = has_own_source(pattern.kind) ? pattern.from_shift : 0;
  return {.kind = pattern.kind,
          .peer = pattern.peer,
          .to = pattern.to,
          .from = pattern.from,
          .region = {begin, end},
          .from_region = {begin + shift, end + shift}};
}

const char* name_of(Buffer buffer) {
  switch (buffer) {
    case Buffer::input:
      return "input";
    case Buffer::output:
      return "output";
    case Buffer::scratch:
      return "scratch";
  }
  return "?";
}

std::string place(Buffer buffer, const Region& region) {
  return std::string(name_of(buffer)) + "[" + std::to_string(region.begin) + ", " +
         std::to_string(region.end) + ")";
}

}  // namespace

bool Cursor::next(Step& step) {
  for (; loop_ < schedule_->loops.size(); ++loop_, outer_ = 0) {
    const Loop& loop = schedule_->loops[loop_];
    for (; outer_ < loop.outer_count; ++outer_, inner_ = 0) {
      for (; inner_ < loop.inner_count; ++inner_, pattern_ = 0) {
        while (pattern_ < loop.steps.size()) {
          const Step candidate = expand(loop.steps[pattern_++], outer_, inner_);
          if (candidate.region.empty() && !names_a_slot(candidate.kind)) continue;
          step = candidate;
          return true;
        }
      }
    }
  }
  return false;
}

std::string describe(const Step& step) {
  const std::string peer = "rank " + std::to_string(step.peer);
  const std::string to = place(step.to, step.region);
  const std::string from = place(step.from, step.region);
  const std::string slot = "slot " + std::to_string(step.region.begin);
  switch (step.kind) {
    case StepKind::send:
      return "send " + from + " to " + peer;
    case StepKind::recv:
      return "recv " + to + " from " + peer;
    case StepKind::recv_reduce:
      return "recv_reduce " + to + " = " + from + " + data from " + peer;
    case StepKind::copy:
      return "copy " + to + " = " + place(step.from, step.from_region);
    case StepKind::reduce:
      return "reduce " + to + " += " + place(step.from, step.from_region);
    case StepKind::publish:
      return "publish " + slot;
    case StepKind::await:
      return "await " + slot + " of " + peer;
    case StepKind::read_from:
      return "read " + to + " = " + from + " of " + peer;
    case StepKind::reduce_from:
      return "reduce " + to + " += " + from + " of " + peer;
  }
  return "?";
}

}  // namespace tutti::algorithm
