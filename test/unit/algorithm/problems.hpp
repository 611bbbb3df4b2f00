#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithm/checker.hpp"
#include "algorithm/choice.hpp"
#include "algorithm/schedule.hpp"

/// What the tests of this folder share: the cases to try, and the way to try one.
namespace tutti::algorithm::test {

using Make = Schedule (*)(std::string_view, const Problem&);

struct Case {
  std::string_view algorithm;
  Problem problem;  // `rank` is not looked at
  CheckOptions options;
};

inline std::vector<Schedule> schedules_of(Make make, const Case& c) {
  std::vector<Schedule> schedules;
  schedules.reserve(static_cast<std::size_t>(c.problem.size));
  Problem problem = c.problem;
  for (problem.rank = 0; problem.rank < problem.size; ++problem.rank)
    schedules.push_back(make(c.algorithm, problem));
  return schedules;
}

inline Expectation expectation_of(Operation operation, const Problem& problem) {
  return {.operation = operation,
          .count = problem.count,
          .root = problem.root,
          .in_place = problem.in_place,
          .source = {}};
}

inline std::string text_of(const Case& c) {
  const Problem& p = c.problem;
  return std::string(c.algorithm) + " size " + std::to_string(p.size) + " root " +
         std::to_string(p.root) + " count " + std::to_string(p.count) + " chunk " +
         std::to_string(p.chunk) + (p.in_place ? " in place" : " out of place") + " window " +
         std::to_string(c.options.window) + " seed " + std::to_string(c.options.seed);
}

/// Empty if right, else the case and what is wrong.
inline std::string failure_of(Operation operation, Make make, const Case& c) {
  const auto fault = check(schedules_of(make, c), expectation_of(operation, c.problem), c.options);
  return fault ? text_of(c) + ": " + *fault : std::string();
}

struct Size {
  std::int64_t count;
  std::int64_t chunk;
};

/// Nothing, one element, around one a rank, an odd number, and many chunks. Chunks are small where
/// a run is cheap, or in one run of four, so that a sweep over all sizes and roots stays within
/// seconds.
inline std::vector<Size> sizes_for(int ranks, std::uint64_t run) {
  const bool fine = run % 4 == 0;
  return {{0, 4},
          {1, 4},
          {ranks - 1, 4},
          {ranks, fine ? 1 : 3},
          {2 * ranks + 3, fine ? 2 : 7},
          {1003, fine ? 16 : 64}};
}

/// One run after the other takes the next of these.
inline CheckOptions options_for(std::uint64_t run) {
  constexpr int windows[] = {2, 64, 3, 16};
  return {.window = windows[run % 4], .seed = run / 4 % 5};
}

inline std::vector<std::vector<int>> host_layouts() {
  return {{0, 0, 0, 1, 1, 1},                  // two hosts
          {0, 1, 0, 1, 0, 1},                  // two, interleaved
          {0, 0, 0, 0, 0, 1},                  // two, uneven
          {0, 1, 1, 1, 1},                     // two, uneven the other way
          {0, 0, 1, 1, 2, 2},                  // three hosts
          {0, 1, 2, 0, 1, 2, 0},               // three, interleaved, uneven
          {2, 0, 1, 1, 0, 2, 2, 2},            // three, in no order
          {0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}};  // three, very uneven
}

}  // namespace tutti::algorithm::test
