#include "bandwidth.hpp"

#include <algorithm>

namespace tutti::app::bench {
namespace {

/// What the busiest link carries, over nccl_tests_bytes().
double bus_factor(const Problem& problem) {
  const auto ranks = static_cast<double>(problem.ranks);
  switch (problem.operation) {
    case Operation::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
      return (ranks - 1) / ranks;
    case Operation::fan_out:
      // Not in nccl-tests: each byte leaves the root once for each other rank.
      return ranks - 1;
    default:
      return 1;
  }
}

}  // namespace

std::size_t nccl_tests_bytes(const Problem& problem) {
  const auto shape = shape_of(problem);
  const bool has_blocks = shape.send == Extent::all || shape.recv == Extent::all;
  const auto blocks = has_blocks ? static_cast<std::size_t>(problem.ranks) : 1;
  return problem.count * blocks * size_of(problem.type);
}

std::size_t osu_bytes(const Problem& problem) {
  const auto block = problem.count * size_of(problem.type);
  if (problem.operation == Operation::all_to_all) return block;
  if (problem.operation == Operation::reduce_scatter) return nccl_tests_bytes(problem);
  return bytes_of(problem);
}

Bandwidth bandwidth_of(const Problem& problem, double seconds) {
  const double algorithm = static_cast<double>(nccl_tests_bytes(problem)) / seconds / 1e9;
  return {algorithm, algorithm * bus_factor(problem)};
}

}  // namespace tutti::app::bench
