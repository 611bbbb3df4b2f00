#pragma once

#include <cstdint>
#include <vector>

#include "support/schedule_checker/check_sets.hpp"
#include "support/schedule_checker/checker.hpp"

namespace tutti::algorithm {

/// Content of one element: the contributions of `set` to element `element`.
///
/// An element has one number wherever it is: its index in the buffer of all blocks if there is one,
/// in input or output; for all_to_all its index in the sender's input.
struct Symbol {
  std::int32_t element = 0;
  ContributorSets::Id set = 0;  // 0: never written
  std::int32_t writer = -1;     // the step that wrote it
};

/// One rank's memory at the start, and its expected output.
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
