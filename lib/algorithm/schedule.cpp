#include "algorithm/schedule.hpp"

#include <algorithm>

namespace tutti::algorithm {

namespace {

bool has_own_source(StepKind kind) {
  return kind == StepKind::recv_reduce || kind == StepKind::copy || kind == StepKind::reduce ||
         kind == StepKind::combine || kind == StepKind::read_reduce;
}

bool opens_or_closes_a_chunk(StepKind kind) {
  return kind == StepKind::publish || kind == StepKind::release;
}

Step expand(const StepPattern& pattern, std::int64_t pass, std::int64_t i, std::int64_t j) {
  const std::int64_t offset = pattern.offset.at(i, j, pass);
  const std::int64_t limit = std::min(offset + pattern.length, pattern.end.at(i, j, pass));
  const bool is_empty = offset < 0 || limit <= offset;
  const std::int64_t begin = is_empty ? 0 : offset;
  const std::int64_t end = is_empty ? 0 : limit;
  const std::int64_t shift = has_own_source(pattern.kind) ? pattern.from_shift.at(i, j, pass) : 0;
  const std::int64_t last_part = pattern.parts > 1 ? (pattern.parts - 1) * pattern.stride : 0;
  return {.kind = pattern.kind,
          .peer = pattern.peer + static_cast<int>(i) * pattern.peer_step,
          .to = pattern.to,
          .from = pattern.from,
          .region = {begin, end},
          .from_region = {begin + shift, end + shift + last_part},
          .parts = pattern.parts,
          .stride = pattern.stride,
          .remote = begin + pattern.remote_shift.at(i, j, pass)};
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

bool reads_from(StepKind kind) noexcept {
  return kind == StepKind::send || kind == StepKind::publish || has_own_source(kind);
}

bool writes_to(StepKind kind) noexcept {
  return kind != StepKind::send && !opens_or_closes_a_chunk(kind);
}

bool reads_published(StepKind kind) noexcept {
  return kind == StepKind::read || kind == StepKind::read_reduce;
}

bool keeps_chunks_in_order(StepKind earlier, StepKind later) noexcept {
  if (later == StepKind::publish) return earlier == StepKind::publish;
  return later == StepKind::release &&
         (opens_or_closes_a_chunk(earlier) || reads_published(earlier));
}

std::int64_t published_chunks(const Schedule& schedule) noexcept {
  std::int64_t chunks = 0;
  for (const auto& loop : schedule.loops) {
    const auto published =
        std::count_if(loop.steps.begin(), loop.steps.end(),
                      [](const StepPattern& step) { return step.kind == StepKind::publish; });
    chunks += loop.outer_count * loop.inner_count * published;
  }
  return chunks * schedule.passes;
}

bool Cursor::next(Step& step) {
  for (; pass_ < schedule_->passes; ++pass_, loop_ = 0)
    if (next_of_pass(step)) return true;
  return false;
}

bool Cursor::next_of_pass(Step& step) {
  for (; loop_ < schedule_->loops.size(); ++loop_, outer_ = 0) {
    const Loop& loop = schedule_->loops[loop_];
    for (; outer_ < loop.outer_count; ++outer_, inner_ = 0) {
      for (; inner_ < loop.inner_count; ++inner_, pattern_ = 0) {
        while (pattern_ < loop.steps.size()) {
          const Step candidate = expand(loop.steps[pattern_++], pass_, outer_, inner_);
          if (candidate.region.empty() && !opens_or_closes_a_chunk(candidate.kind)) continue;
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
  const std::string own = place(step.from, step.from_region);
  switch (step.kind) {
    case StepKind::send:
      return "send " + from + " to " + peer;
    case StepKind::recv:
      return "recv " + to + " from " + peer;
    case StepKind::recv_reduce:
      return "recv_reduce " + to + " = " + own + " + data from " + peer;
    case StepKind::copy:
      return "copy " + to + " = " + own;
    case StepKind::reduce:
      return "reduce " + to + " += " + own;
    case StepKind::combine:
      return "combine " + to + " = " + std::to_string(step.parts) + " parts of " + own +
             ", one each " + std::to_string(step.stride);
    case StepKind::publish:
      return "publish " + from;
    case StepKind::read:
      return "read " + to + " = elements from " + std::to_string(step.remote) + " of " + peer;
    case StepKind::read_reduce:
      return "read_reduce " + to + " = " + own + " + elements from " + std::to_string(step.remote) +
             " of " + peer;
    case StepKind::release:
      return "release";
  }
  return "?";
}

}  // namespace tutti::algorithm
