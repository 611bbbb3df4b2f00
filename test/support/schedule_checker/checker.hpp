#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithm/schedule.hpp"
#include "base/call_signature.hpp"

/// Runs the schedules of all ranks in one process, without I/O, on symbols: an element is
/// "contributions of ranks {…} to element e". This proves that every contribution arrives exactly
/// once, without deadlock or unmatched steps.
namespace tutti::algorithm {

/// Initial and expected content of the buffers, as algorithms.hpp defines the operation. Out of
/// place, output is initially unwritten; a rank without such a buffer has one of no elements.
struct Expectation {
  Operation operation = Operation::broadcast;
  std::int64_t count = 0;  ///< as ScheduleArguments::count
  int root = 0;
  bool in_place = true;  ///< operations that have an input
  /// By rank, if ranks differ in it.
  std::vector<bool> in_place_of;
  /// v-forms: the elements of each rank's block.
  std::vector<std::int64_t> counts;
  /// all_to_all_v: sent[r][q] elements go from rank r to rank q.
  std::vector<std::vector<std::int64_t>> sent;
  /// By rank, the host: only the ranks of a host see what a rank publishes. Empty: all on one host.
  std::vector<int> host;
  /// As ScheduleArguments::max_published.
  std::int64_t max_published = std::int64_t{1} << 40;
};

struct CheckOptions {
  /// Consecutive steps that a rank keeps in flight, 1 to 64. They finish in any order that data and
  /// streams allow.
  int window = 64;
  /// Order of events: 0 takes the one possible for longest, 1 the latest; any other value seeds a
  /// random choice, which also splits transfers.
  std::uint64_t seed = 0;
};

/// Returns nothing if all is correct, else one line that names the rank, the step and the element.
///
/// Detects: contributions that are missing or counted twice, elements in the wrong place, reads of
/// unwritten memory, writes to input, changes to memory that must stay unchanged, regions outside
/// of their buffer, deadlocks, sends or recvs without a counterpart, and chunks that are not
/// released one by one. Each part of a combine must be the contribution of its rank alone. A
/// publish waits until its host has released all earlier chunks. Sends complete when they are
/// received. Throws std::invalid_argument for a window out of range.
[[nodiscard]] std::optional<std::string> check(std::span<const Schedule> all_ranks,
                                               const Expectation& expectation,
                                               const CheckOptions& options = {});

}  // namespace tutti::algorithm
