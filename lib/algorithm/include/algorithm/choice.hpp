#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithm/cost_model.hpp"
#include "algorithm/schedule.hpp"
#include "base/call_signature.hpp"

/// Choice of the algorithm of a call, and its schedule by name.
namespace tutti::algorithm {

/// What the choice depends on besides the arguments; the same on all ranks.
struct Traits {
  std::int64_t element_bytes = 1;
  /// Contributions must be combined in rank order in one pass: for 16-bit floats, which are rounded
  /// once, and for deterministic calls.
  bool in_rank_order = false;
  /// Used between hosts; inside a host the limits are measured constants.
  CostModel costs;
};

/// All algorithms of the operation. With `in_rank_order` only those that combine in rank order, or
/// do not combine. Empty for operations without algorithms: send, recv and send_recv.
[[nodiscard]] std::span<const std::string_view> algorithms_of(Operation operation,
                                                              bool in_rank_order = false);
/// Chooses one of algorithms_of(operation, traits.in_rank_order); the same on all ranks. Throws
/// std::invalid_argument for operations without algorithms.
[[nodiscard]] std::string_view choose(Operation operation, const ScheduleArguments& arguments,
                                      const Traits& traits);
/// Elements of a chunk for a chosen or named algorithm; the same on all ranks.
[[nodiscard]] std::int64_t choose_chunk(Operation operation, std::string_view algorithm,
                                        const ScheduleArguments& arguments, const Traits& traits);
/// Throws std::invalid_argument for an unknown name; the message lists the known ones.
[[nodiscard]] Schedule make(Operation operation, std::string_view algorithm,
                            const ScheduleArguments& arguments);

}  // namespace tutti::algorithm
