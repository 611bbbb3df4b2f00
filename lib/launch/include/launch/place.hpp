#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/environment.hpp"

/// Who am I? Pure functions of an environment map, and of what the ranks have told each other.
namespace tutti::launch {

/// What a launcher wrote into the environment about this process.
struct LauncherClaim {
  std::optional<int> local_rank;
  std::string source;  ///< the variable it came from
  /// The rank and size that it numbers by, as text; empty: it says none.
  std::string rank;
  std::string size;
};

/// Reads the launcher's variables. Throws Error{usage} that names a variable which holds no number.
[[nodiscard]] LauncherClaim read_launcher(const EnvironmentMap& environment);

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks with the same host identity, in the order of ranks
  int local_size = 1;
  int host_index = 0;  ///< hosts are numbered in the order of their lowest rank
  int host_count = 1;
};

/// result[r] is the place of rank r. `host_identity[r]` is what rank r says of its host; two hosts
/// are the same only if the whole identities are equal.
[[nodiscard]] std::vector<Place> find_places(std::span<const std::string> host_identity);

/// A sentence where the launcher's claim contradicts what the ranks found; empty where it does not,
/// or where the claim is about other ranks: those of this job may be a part of what the launcher
/// has started, or have been spawned, or be numbered anew.
[[nodiscard]] std::string disagreement(const LauncherClaim& claim, const Place& place,
                                       const std::string& host);

}  // namespace tutti::launch
