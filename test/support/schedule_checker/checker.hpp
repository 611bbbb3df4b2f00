#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithm/schedule.hpp"
#include "base/call_signature.hpp"

/// Runs the schedules of all ranks in one process, without I/O, on symbols: an element is
/// "contributions of ranks {…} to element e". So it proves that every contribution arrives exactly
/// once, and that nothing deadlocks or stays unmatched.
namespace tutti::algorithm {

/// What the buffers hold at the start and shall hold in the end: as algorithms.hpp says of the
/// operation. Out of place, output starts with nothing; a rank that shall have no such buffer has
/// one of no elements.
struct Expectation {
  Operation operation = Operation::broadcast;
  std::int64_t count = 0;  ///< as Problem::count
  int root = 0;
  bool in_place = true;  ///< operations that have an input
  /// Of each rank, where ranks differ in it.
  std::vector<bool> in_place_of;
  /// v-forms: the elements of each rank's block.
  std::vector<std::int64_t> counts;
  /// all_to_all_v: sent[r][q] elements go from rank r to rank q.
  std::vector<std::vector<std::int64_t>> sent;
};

struct CheckOptions {
  /// Consecutive steps a rank keeps in flight, 1 to 64. They finish in any order that the data and
  /// the streams allow.
  int window = 64;
  /// Which of the possible next events is taken: 0 the one possible for longest, 1 the one that
  /// became possible last; any other seeds a random choice, which also cuts transfers into parts.
  std::uint64_t seed = 0;
};

/// Nothing if all is right, else one line that names the rank, the step and the element.
///
/// Found are: contributions that are missing or counted twice, elements that end in the wrong
/// place, reads of memory that nothing has written, writes to input, changes to what shall stay as
/// it is, regions outside of their buffer, deadlocks, and sends or recvs whose peer has no step for
/// them. What combine takes for the part of a rank must be the contribution of this rank, and of no
/// other. Sends complete when they are received. publish, await, read_from and reduce_from are not
/// known here and reported as faults. Throws std::invalid_argument for a window out of range.
[[nodiscard]] std::optional<std::string> check(std::span<const Schedule> all_ranks,
                                               const Expectation& expectation,
                                               const CheckOptions& options = {});

}  // namespace tutti::algorithm
