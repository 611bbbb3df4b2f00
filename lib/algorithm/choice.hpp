#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithm/schedule.hpp"
#include "base/call_signature.hpp"

/// Which algorithm a call uses, and the way from its name to its schedule.
namespace tutti::algorithm {

/// What the choice looks at besides the problem; all ranks know it alike.
struct Traits {
  std::int64_t element_bytes = 1;
  /// Contributions must be combined in the order of ranks, all at once: 16-bit floats, which are
  /// rounded once, and deterministic calls.
  bool in_rank_order = false;
};

/// All names that make() knows for the operation; with `in_rank_order`, those that combine so.
[[nodiscard]] std::span<const std::string_view> algorithms_of(Operation operation,
                                                              bool in_rank_order = false);
[[nodiscard]] std::string_view choose(Operation operation, const Problem& problem,
                                      const Traits& traits);
/// Throws std::invalid_argument for a name that the operation does not know; the text lists those
/// it does.
[[nodiscard]] Schedule make(Operation operation, std::string_view algorithm,
                            const Problem& problem);

/// The choice looks only at what all ranks know alike. `bytes` is the size of the whole buffer.
[[nodiscard]] std::string_view choose_fan_out(int size, std::int64_t bytes);
[[nodiscard]] std::string_view choose_broadcast(int size, std::int64_t bytes);
[[nodiscard]] std::string_view choose_all_reduce(int size, std::int64_t bytes);
[[nodiscard]] std::string_view choose_barrier(int size);

/// All names that the make_ functions below know.
[[nodiscard]] std::span<const std::string_view> fan_out_algorithms();
[[nodiscard]] std::span<const std::string_view> broadcast_algorithms();
[[nodiscard]] std::span<const std::string_view> all_reduce_algorithms();
[[nodiscard]] std::span<const std::string_view> barrier_algorithms();

/// Throw std::invalid_argument for a name that the operation does not know; the text lists those it
/// does.
[[nodiscard]] Schedule make_fan_out(std::string_view algorithm, const Problem& problem);
[[nodiscard]] Schedule make_broadcast(std::string_view algorithm, const Problem& problem);
[[nodiscard]] Schedule make_all_reduce(std::string_view algorithm, const Problem& problem);
[[nodiscard]] Schedule make_barrier(std::string_view algorithm, const Problem& problem);

}  // namespace tutti::algorithm
