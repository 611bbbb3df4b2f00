#include "bandwidth.hpp"

#include <algorithm>

namespace tutti::app::bench {
namespace {

/// Bytes on the busiest link divided by nccl_tests_bytes().
double bus_factor(const CallSpec& spec) {
  const auto ranks = static_cast<double>(spec.ranks);
  switch (spec.operation) {
    case Operation::all_reduce:
      return 2 * (ranks - 1) / ranks;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
      return (ranks - 1) / ranks;
    case Operation::fan_out:
      // nccl-tests has no such operation. Each byte leaves the root once per other rank.
      return ranks - 1;
    default:
      return 1;
  }
}

}  // namespace

std::size_t nccl_tests_bytes(const CallSpec& spec) {
  const auto shape = shape_of(spec);
  const bool has_blocks = shape.send == Extent::all || shape.recv == Extent::all;
  const auto blocks = has_blocks ? static_cast<std::size_t>(spec.ranks) : 1;
  return spec.count * blocks * size_of(spec.type);
}

std::size_t osu_bytes(const CallSpec& spec) {
  const auto block = spec.count * size_of(spec.type);
  if (spec.operation == Operation::all_to_all) return block;
  if (spec.operation == Operation::reduce_scatter) return nccl_tests_bytes(spec);
  return bytes_of(spec);
}

Bandwidth bandwidth_of(const CallSpec& spec, double seconds) {
  const double algorithm = static_cast<double>(nccl_tests_bytes(spec)) / seconds / 1e9;
  return {algorithm, algorithm * bus_factor(spec)};
}

}  // namespace tutti::app::bench
