#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithm/cost_model.hpp"
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
  /// Looked at between hosts; on one host the limits are constants that were measured.
  CostModel costs;
};

/// All names that make() knows for the operation; with `in_rank_order`, those that combine so, or
/// nothing at all. None for operations that take no algorithm: send, recv and send_recv.
[[nodiscard]] std::span<const std::string_view> algorithms_of(Operation operation,
                                                              bool in_rank_order = false);
/// The same on all ranks; one of algorithms_of(operation, traits.in_rank_order). Throws
/// std::invalid_argument for operations that take no algorithm.
[[nodiscard]] std::string_view choose(Operation operation, const Problem& problem,
                                      const Traits& traits);
/// Elements of a chunk, the same on all ranks, for the algorithm that was chosen or named.
[[nodiscard]] std::int64_t choose_chunk(Operation operation, std::string_view algorithm,
                                        const Problem& problem, const Traits& traits);
/// Throws std::invalid_argument for a name that the operation does not know; the text lists those
/// it does.
[[nodiscard]] Schedule make(Operation operation, std::string_view algorithm,
                            const Problem& problem);

}  // namespace tutti::algorithm
