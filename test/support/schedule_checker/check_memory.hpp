#pragma once

#include <cstdint>
#include <vector>

#include "support/schedule_checker/check_sets.hpp"
#include "support/schedule_checker/checker.hpp"

namespace tutti::algorithm {

/// What one element holds: the contributions of `set` to element `element`.
///
/// Elements are counted so that each has one number wherever it is: within the buffer of all blocks
/// where there is one, in input or output; of all_to_all within the input of the rank it is from.
struct Symbol {
  std::int32_t element = 0;
  ContributorSets::Id set = 0;  // 0: nothing was ever written
  std::int32_t writer = -1;     // number of the step that wrote it
};

/// One rank's memory at the start, and what its output shall hold in the end.
struct CheckedMemory {
  bool in_place = false;
  std::vector<Symbol> input;
  std::vector<Symbol> output;
  std::vector<Symbol> wanted;  // as long as output
  Symbol first_of_scratch;     // the barrier's token
};

[[nodiscard]] CheckedMemory checked_memory(const Expectation& expectation, int rank,
                                           const ContributorSets& sets);

}  // namespace tutti::algorithm
