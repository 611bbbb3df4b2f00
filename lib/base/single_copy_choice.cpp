#include "base/single_copy_choice.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace tutti {
namespace {

constexpr std::uint32_t no_time = std::numeric_limits<std::uint32_t>::max();

// The first calls of a size go through shared memory, until CopyChoice has tried each of its kinds,
// and the next ones by single copy. From then on the faster way is used for a period, at whose end
// the slower one is tried again: in so few calls that the 99th percentile does not contain them.
constexpr std::uint32_t tries = 2;
constexpr std::uint32_t first_shared_calls = 3 * tries;
constexpr std::uint32_t first_calls = first_shared_calls + tries;
constexpr std::uint32_t first_period = 16;
constexpr std::uint32_t period = 500;

// Offers: each way twice in turn.
constexpr std::uint32_t first_offers = 8;
constexpr std::uint32_t turn = 2 * tries;

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

bool SingleCopyChoice::next(const Kind& kind, std::span<Board* const> boards) {
  const auto at = case_of(kind);
  auto& now = cases_[at];
  const auto call = now.calls++;
  if (call < first_calls) return call >= first_shared_calls;
  auto since = call - first_calls;
  auto length = first_period;
  if (since >= first_period) {
    since = (since - first_period) % period;
    length = period;
  }
  if (since == 0) {
    // The slowest rank counts.
    std::uint32_t shared = 0;
    std::uint32_t single = 0;
    for (auto* const board : boards) {
      shared = std::max(shared, (*board)[at].shared.load(std::memory_order_relaxed));
      single = std::max(single, (*board)[at].single.load(std::memory_order_relaxed));
    }
    now.single = single != 0 && (single < shared || shared == 0);
  }
  return now.single != (since >= length - tries);
}

void SingleCopyChoice::took(const Kind& kind, bool single, std::chrono::nanoseconds time,
                            Board& own) {
  const auto at = case_of(kind);
  auto& times = single ? cases_[at].single_times : cases_[at].shared_times;
  times.add(time, kind.bytes);
  (single ? own[at].single : own[at].shared).store(times.shortest(), std::memory_order_relaxed);
}

OfferChoice::Answer OfferChoice::next(std::size_t bytes) {
  auto& now = cases_[single_copy_size_class(bytes)];
  const auto offer = now.offers++;
  const bool single_is_best = now.single_times.shortest() < now.shared_times.shortest();
  if (offer >= first_offers && single_is_best) return {.reads = offer % period >= tries};
  // While the sender's own copies are faster, it offers `turn` messages between two pauses.
  return {.reads = offer % turn < tries,
          .pauses = offer >= first_offers && offer % turn == turn - 1};
}

void OfferChoice::took(std::size_t bytes, bool single, std::chrono::nanoseconds time) {
  auto& now = cases_[single_copy_size_class(bytes)];
  (single ? now.single_times : now.shared_times).add(time, bytes);
}

}  // namespace tutti
