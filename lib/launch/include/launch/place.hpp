#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/environment.hpp"

/// Rank and local rank of this process, from an environment map and the ranks' host identities.
/// Pure functions.
namespace tutti::launch {

/// A launcher's variables for this process.
struct LauncherClaim {
  std::optional<int> local_rank;
  std::string source;  ///< the variable that it came from
  /// Rank and size in its numbering, as text; empty: not set.
  std::string rank;
  std::string size;
};

/// Reads the launcher's variables. Throws Error{usage} that names a variable with an invalid
/// number.
[[nodiscard]] LauncherClaim read_launcher(const EnvironmentMap& environment);

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks with the same host identity, in rank order
  int local_size = 1;
  int host_index = 0;  ///< hosts are numbered by their lowest rank
  int host_count = 1;
};

/// result[r] is the place of rank r. `host_identity[r]` is the host identity of rank r; hosts are
/// the same only if their identities are equal.
[[nodiscard]] std::vector<Place> find_places(std::span<const std::string> host_identity);

/// A sentence if the launcher's claim contradicts the ranks' placement; empty if it does not, or if
/// the claim is about other ranks (this job's ranks may be a subset, spawned or renumbered).
[[nodiscard]] std::string disagreement(const LauncherClaim& claim, const Place& place,
                                       const std::string& host);

}  // namespace tutti::launch
