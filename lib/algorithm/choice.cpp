#include "algorithm/choice.hpp"

#include <array>
#include <stdexcept>
#include <string>

#include "algorithm/algorithms.hpp"

namespace tutti::algorithm {

namespace {

// Up to here a message costs more for its start than for its bytes on every transport that was
// measured (5 to 60 µs to wake a peer, 1 to 5 GB/s), so the fewest rounds win.
constexpr std::int64_t fewest_rounds_bytes = std::int64_t{64} << 10;

// A chain or ring pays one hop a rank. A hop is paid back once it moves this much, about what a
// link carries in the time that a message takes to start.
constexpr std::int64_t bytes_worth_a_hop = std::int64_t{8} << 10;

bool worth_a_pipeline(int size, std::int64_t bytes) {
  return bytes > fewest_rounds_bytes && bytes / size >= bytes_worth_a_hop;
}

using Names = std::span<const std::string_view>;
using Make = Schedule (*)(const Problem&);

constexpr std::array<std::string_view, 1> fan_out_names{"direct"};
constexpr std::array<Make, 1> fan_outs{fan_out_direct};

constexpr std::array<std::string_view, 4> broadcast_names{"binomial", "chain", "scatter_ring",
                                                          "direct"};
constexpr std::array<Make, 4> broadcasts{broadcast_binomial, broadcast_chain,
                                         broadcast_scatter_ring, fan_out_direct};

constexpr std::array<std::string_view, 2> all_reduce_names{"recursive_doubling", "ring"};
constexpr std::array<Make, 2> all_reduces{all_reduce_recursive_doubling, all_reduce_ring};

constexpr std::array<std::string_view, 1> barrier_names{"dissemination"};
constexpr std::array<Make, 1> barriers{barrier_dissemination};

Schedule make(std::string_view operation, Names names, std::span<const Make> functions,
              std::string_view algorithm, const Problem& problem) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == algorithm) return functions[i](problem);
  std::string text =
      std::string(operation) + " has no algorithm \"" + std::string(algorithm) + "\"; it has";
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? " " : ", ") + std::string(names[i]);
  throw std::invalid_argument(text);
}

}  // namespace

std::string_view choose_fan_out(int, std::int64_t) {
  return "direct";
}

std::string_view choose_broadcast(int size, std::int64_t bytes) {
  // With one peer there is nothing to pass on.
  if (size <= 2) return "direct";
  return worth_a_pipeline(size, bytes) ? "chain" : "binomial";
}

std::string_view choose_all_reduce(int size, std::int64_t bytes) {
  return worth_a_pipeline(size, bytes) ? "ring" : "recursive_doubling";
}

std::string_view choose_barrier(int) {
  return "dissemination";
}

Names fan_out_algorithms() {
  return fan_out_names;
}
Names broadcast_algorithms() {
  return broadcast_names;
}
Names all_reduce_algorithms() {
  return all_reduce_names;
}
Names barrier_algorithms() {
  return barrier_names;
}

Schedule make_fan_out(std::string_view algorithm, const Problem& problem) {
  return make("fan_out", fan_out_names, fan_outs, algorithm, problem);
}

Schedule make_broadcast(std::string_view algorithm, const Problem& problem) {
  return make("broadcast", broadcast_names, broadcasts, algorithm, problem);
}

Schedule make_all_reduce(std::string_view algorithm, const Problem& problem) {
  return make("all_reduce", all_reduce_names, all_reduces, algorithm, problem);
}

Schedule make_barrier(std::string_view algorithm, const Problem& problem) {
  return make("barrier", barrier_names, barriers, algorithm, problem);
}

Names algorithms_of(Operation operation, bool in_rank_order) {
  if (in_rank_order) return {};
  switch (operation) {
    case Operation::fan_out:
      return fan_out_names;
    case Operation::broadcast:
      return broadcast_names;
    case Operation::all_reduce:
      return all_reduce_names;
    case Operation::barrier:
    case Operation::finalize:
      return barrier_names;
    default:
      return {};
  }
}

std::string_view choose(Operation operation, const Problem& problem, const Traits& traits) {
  const auto bytes = problem.count * traits.element_bytes;
  switch (operation) {
    case Operation::fan_out:
      return choose_fan_out(problem.size, bytes);
    case Operation::broadcast:
      return choose_broadcast(problem.size, bytes);
    case Operation::all_reduce:
      return choose_all_reduce(problem.size, bytes);
    default:
      return choose_barrier(problem.size);
  }
}

Schedule make(Operation operation, std::string_view algorithm, const Problem& problem) {
  switch (operation) {
    case Operation::fan_out:
      return make_fan_out(algorithm, problem);
    case Operation::broadcast:
      return make_broadcast(algorithm, problem);
    case Operation::all_reduce:
      return make_all_reduce(algorithm, problem);
    default:
      return make_barrier(algorithm, problem);
  }
}

}  // namespace tutti::algorithm
