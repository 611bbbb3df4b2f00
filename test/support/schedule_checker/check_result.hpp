#pragma once

#include <span>

#include "support/schedule_checker/check_rank.hpp"

namespace tutti::algorithm {

/// Throws Fault if a rank has steps left: a deadlock, or a step without a counterpart at its peer.
void require_all_finished(std::span<const CheckedRank> ranks);

/// Throws Fault if memory differs from the expected content.
void require_expected(std::span<const CheckedRank> ranks, ContributorSets& sets,
                      const Expectation& expectation);

}  // namespace tutti::algorithm
