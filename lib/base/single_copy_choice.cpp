#include "base/single_copy_choice.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace tutti {
namespace {

constexpr std::uint32_t no_time = std::numeric_limits<std::uint32_t>::max();

// Shared memory gets more calls than single copy: CopyChoice tries its kinds, and the first calls
// find the ring buffer outside of the caches.
constexpr std::uint32_t second_trial = 16;
constexpr std::uint32_t shared_trials = 6;

std::uint32_t ticks_of(SingleCopyChoice::Time time) {
  constexpr int log2_ns = 5;
  const auto ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(ns) >> log2_ns);
}

// Offers: each way twice in turn. While messages are read, the sender's copies get a turn in each
// trial.
constexpr std::uint32_t first_offers = 8;
constexpr std::uint32_t trials_of_each = 2;
constexpr std::uint32_t turn = 2 * trials_of_each;

}  // namespace

std::size_t single_copy_size_class(std::size_t bytes) {
  return std::clamp<std::size_t>(std::bit_width(bytes / min_single_copy_bytes), 1,
                                 single_copy_sizes) -
         1;
}

void RecentTimes::add(std::chrono::nanoseconds time, std::size_t bytes) {
  // Integer arithmetic: the thread may trap on inexact floats.
  constexpr std::int64_t longest = std::int64_t{1} << 42;  // over an hour, without overflow below
  const auto ns = static_cast<std::uint64_t>(std::clamp<std::int64_t>(time.count(), 0, longest));
  times_[count_ % kept] = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>((ns << 20) / bytes, 1, std::uint64_t{no_time} - 1));
  ++count_;
}

std::uint32_t RecentTimes::shortest() const {
  const auto count = std::min<std::size_t>(count_, kept);
  if (count == 0) return no_time;
  return *std::min_element(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(count));
}

std::optional<std::size_t> SingleCopyChoice::index_of(Operation operation) {
  constexpr std::array<Operation, operations> covered{Operation::broadcast,  Operation::fan_out,
                                                      Operation::all_gather, Operation::gather,
                                                      Operation::scatter,    Operation::all_to_all};
  const auto* const found = std::find(covered.begin(), covered.end(), operation);
  if (found == covered.end()) return std::nullopt;
  return static_cast<std::size_t>(found - covered.begin());
}

std::size_t SingleCopyChoice::case_of(const Kind& kind) {
  return *index_of(kind.operation) * single_copy_sizes + single_copy_size_class(kind.bytes);
}

bool SingleCopyChoice::next(const Kind& kind, std::span<Board* const> boards,
                            std::size_t untimed_calls) {
  const auto at = case_of(kind);
  auto& now = cases_[at];
  if (now.untimed != trials_begun) {
    if (now.untimed++ < untimed_calls) return false;
    now.untimed = trials_begun;
  }
  const auto offset = now.trials.count(second_trial, kind.bytes);
  if (offset < trial_calls) {
    now.bytes[offset] = kind.bytes;
    return offset >= shared_trials;
  }
  if (now.judged != now.trials.first()) judge(now, at, boards);
  return now.single;
}

/// Changes nothing as long as a rank has not posted all calls of the trial.
void SingleCopyChoice::judge(Case& one, std::size_t at, std::span<Board* const> boards) {
  const auto first = one.trials.first();
  std::array<std::int64_t, 2> shortest{};  // per MiB
  shortest.fill(std::numeric_limits<std::int64_t>::max());
  for (std::uint32_t offset = 0; offset < trial_calls; ++offset) {
    const auto origin = (*boards.front())[at][offset].begun.load(std::memory_order_relaxed);
    auto begun = std::numeric_limits<std::int32_t>::min();
    auto ended = begun;
    for (auto* const board : boards) {
      const auto& posted = (*board)[at][offset];
      if (posted.call.load(std::memory_order_acquire) != first + offset + 1) return;
      // The clock of the units may wrap around.
      const auto since = [origin](const std::atomic<std::uint32_t>& time) {
        return static_cast<std::int32_t>(time.load(std::memory_order_relaxed) - origin);
      };
      begun = std::max(begun, since(posted.begun));
      ended = std::max(ended, since(posted.ended));
    }
    auto& way = shortest[offset >= shared_trials ? 1 : 0];
    const auto time = std::max<std::int64_t>(0, std::int64_t{ended} - begun);
    way = std::min(way, (time << 20) / static_cast<std::int64_t>(one.bytes[offset]));
  }
  one.single = shortest[1] < shortest[0];
  one.judged = first;
}

void SingleCopyChoice::took(const Kind& kind, Time begun, Time ended, Board& own) const {
  const auto at = case_of(kind);
  const auto& trials = cases_[at].trials;
  if (cases_[at].untimed != trials_begun) return;
  const auto offset = trials.offset();
  if (offset >= trial_calls) return;
  auto& posted = own[at][offset];
  posted.begun.store(ticks_of(begun), std::memory_order_relaxed);
  posted.ended.store(ticks_of(ended), std::memory_order_relaxed);
  posted.call.store(trials.first() + offset + 1, std::memory_order_release);
}

OfferChoice::Answer OfferChoice::next(std::size_t bytes) {
  auto& now = cases_[single_copy_size_class(bytes)];
  const auto offset = now.trials.count(first_offers, bytes);
  const bool first = now.trials.first() == 0 && offset < first_offers;
  // Not between trials: the times of a few messages in a row vary more than the two ways differ.
  const bool ends_trial = now.reads ? offset == turn : offset % turn == 0;
  if (!first && ends_trial) now.reads = now.single_times.shortest() < now.shared_times.shortest();
  if (now.reads) return {.reads = offset >= turn};
  // While the sender's own copies are faster, it offers `turn` messages between two pauses.
  return {.reads = offset % turn < trials_of_each, .pauses = !first && offset % turn == turn - 1};
}

void OfferChoice::took(std::size_t bytes, bool single, std::chrono::nanoseconds time) {
  auto& now = cases_[single_copy_size_class(bytes)];
  (single ? now.single_times : now.shared_times).add(time, bytes);
}

}  // namespace tutti
