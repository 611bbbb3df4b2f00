#include "base/copy_choice.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace tutti {
namespace {

// In a trial each choice gets two calls in a row, since the first one moves the data to its new
// place.
constexpr std::uint32_t tries = 2;

}  // namespace

void CopyChoice::Times::add(std::uint32_t time) {
  times[next % kept] = time;
  ++next;
}

std::uint32_t CopyChoice::Times::shortest() const {
  const auto count = std::min<std::size_t>(next, kept);
  if (count == 0) return std::numeric_limits<std::uint32_t>::max();
  return *std::min_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(count));
}

CopyChoice::Case& CopyChoice::of(const Kind& kind) {
  const auto size = std::min<std::size_t>(std::bit_width(kind.bytes / min_bytes), sizes - 1);
  const auto operation = static_cast<std::size_t>(kind.operation);
  if (cases_.empty()) cases_.resize(operations * roles * sizes);
  return cases_[(operation * roles + (kind.is_root ? 1 : 0)) * sizes + size];
}

Streaming CopyChoice::next(const Kind& kind) {
  constexpr auto trial_calls = std::uint32_t{tries * kinds};
  auto& now = of(kind);
  const auto offset = now.trials.count(trial_calls, kind.bytes);
  if (offset < trial_calls) return static_cast<Streaming>(offset / tries);
  const auto shorter = [](const Times& a, const Times& b) { return a.shortest() < b.shortest(); };
  const auto best = std::min_element(now.times.begin(), now.times.end(), shorter);
  return static_cast<Streaming>(best - now.times.begin());
}

void CopyChoice::took(const Kind& kind, Streaming streaming, Duration time) {
  // Integer arithmetic: the thread may trap on inexact floats.
  constexpr std::int64_t longest = std::int64_t{1} << 42;  // over an hour, without overflow below
  const auto ns = std::clamp<std::int64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(), 0, longest);
  const auto of_a_mebibyte = (static_cast<std::uint64_t>(ns) << 20) / kind.bytes;
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  of(kind).times[static_cast<std::size_t>(streaming)].add(
      static_cast<std::uint32_t>(std::min(of_a_mebibyte, most)));
}

}  // namespace tutti
