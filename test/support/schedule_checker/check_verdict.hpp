#pragma once

#include <span>

#include "support/schedule_checker/check_rank.hpp"

namespace tutti::algorithm {

/// Throws Fault if a rank has steps left: a deadlock, or a step that its peer has no counterpart
/// for.
void require_all_finished(std::span<const CheckedRank> ranks);

/// Throws Fault if memory does not hold what was expected.
void require_expected(std::span<const CheckedRank> ranks, ContributorSets& sets,
                      const Expectation& expectation);

}  // namespace tutti::algorithm
