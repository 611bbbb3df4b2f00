#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "algorithm/choice.hpp"
#include "algorithm/schedule.hpp"
#include "support/schedule_checker/checker.hpp"

/// Shared by the tests of this folder: the cases, and how to check one.
namespace tutti::algorithm::test {

struct Case {
  Operation operation;
  std::string_view algorithm;
  ScheduleArguments problem;  // `rank` is ignored; `counts` of v-forms are the blocks of all ranks
  CheckOptions options;
  std::vector<bool> in_place_of;                // if ranks differ in it
  std::vector<std::vector<std::int64_t>> sent;  // all_to_all_v: by sender, then receiver
  std::set<int> sharing;                        // hosts whose ranks share memory
};

inline ScheduleArguments problem_of(const Case& c, int rank) {
  ScheduleArguments problem = c.problem;
  problem.rank = rank;
  const auto own = static_cast<std::size_t>(rank);
  problem.shares_memory = c.sharing.contains(problem.host.empty() ? 0 : problem.host[own]);
  if (!c.in_place_of.empty()) problem.in_place = c.in_place_of[own];
  const bool root_knows = c.operation == Operation::gather_v || c.operation == Operation::scatter_v;
  if (root_knows && rank != problem.root) {
    problem.count = problem.counts[own];
    problem.counts.clear();
  }
  if (c.operation == Operation::all_to_all_v) {
    problem.counts = c.sent[own];
    for (const auto& counts : c.sent) problem.recv_counts.push_back(counts[own]);
  }
  return problem;
}

inline std::vector<Schedule> schedules_of(const Case& c) {
  std::vector<Schedule> schedules;
  schedules.reserve(static_cast<std::size_t>(c.problem.size));
  for (int rank = 0; rank < c.problem.size; ++rank)
    schedules.push_back(make(c.operation, c.algorithm, problem_of(c, rank)));
  return schedules;
}

inline Expectation expectation_of(const Case& c) {
  return {.operation = c.operation,
          .count = c.problem.count,
          .root = c.problem.root,
          .in_place = c.problem.in_place,
          .in_place_of = c.in_place_of,
          .counts = c.problem.counts,
          .sent = c.sent,
          .host = c.problem.host,
          .max_published = c.problem.max_published};
}

inline std::string text_of(const Case& c) {
  const ScheduleArguments& p = c.problem;
  std::string text = std::string(name(c.operation)) + " " + std::string(c.algorithm) + " size " +
                     std::to_string(p.size) + " root " + std::to_string(p.root) + " count " +
                     std::to_string(p.count) + " chunk " + std::to_string(p.chunk) +
                     (p.in_place ? " in place" : " out of place") + " window " +
                     std::to_string(c.options.window) + " seed " + std::to_string(c.options.seed);
  text += " publishing " + std::to_string(p.max_published);
  for (const int host : c.sharing) text += " sharing on host " + std::to_string(host);
  for (std::size_t i = 0; i < p.host.size(); ++i)
    text += (i == 0 ? " hosts " : ",") + std::to_string(p.host[i]);
  if (!c.in_place_of.empty()) text += " mixed";
  for (std::size_t i = 0; i < p.counts.size(); ++i)
    text += (i == 0 ? " counts " : ",") + std::to_string(p.counts[i]);
  return text;
}

/// Empty if correct, else the case and its error.
inline std::string failure_of(const Case& c) {
  const auto fault = check(schedules_of(c), expectation_of(c), c.options);
  return fault ? text_of(c) + ": " + *fault : std::string();
}

struct Size {
  std::int64_t count;
  std::int64_t chunk;
};

/// No elements, one, about one per rank, an odd number, and many chunks. Chunks are small if a run
/// is cheap, or in one run of four, so that a sweep over all sizes and roots takes seconds.
inline std::vector<Size> sizes_for(int ranks, std::uint64_t run) {
  const bool fine = run % 4 == 0;
  return {{0, 4},
          {1, 4},
          {ranks - 1, 4},
          {ranks, fine ? 1 : 3},
          {2 * ranks + 3, fine ? 2 : 7},
          {1003, fine ? 16 : 64}};
}

/// Successive runs use successive options.
inline CheckOptions options_for(std::uint64_t run) {
  constexpr int windows[] = {2, 64, 3, 16};
  return {.window = windows[run % 4], .seed = run / 4 % 5};
}

/// Out of place, in place, or mixed, by `variant` modulo 3.
inline void set_in_place(Case& c, std::uint64_t variant) {
  c.problem.in_place = variant % 3 == 1;
  c.in_place_of.clear();
  if (variant % 3 != 2) return;
  for (int rank = 0; rank < c.problem.size; ++rank)
    c.in_place_of.push_back((static_cast<std::uint64_t>(rank) + variant / 3) % 2 == 0);
}

inline std::vector<std::vector<int>> host_layouts() {
  return {{0, 0, 0, 1, 1, 1},                  // two hosts
          {0, 1, 0, 1, 0, 1},                  // two, interleaved
          {0, 0, 0, 0, 0, 1},                  // two, uneven
          {0, 1, 1, 1, 1},                     // two, uneven the other way
          {0, 0, 1, 1, 2, 2},                  // three hosts
          {0, 1, 2, 0, 1, 2, 0},               // three, interleaved, uneven
          {2, 0, 1, 1, 0, 2, 2, 2},            // three, unordered
          {0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}};  // three, very uneven
}

}  // namespace tutti::algorithm::test
