#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::app::bench {

/// Times and errors of one implementation for one call. The same on all ranks.
struct ImplementationResult {
  /// Why the implementation does not support the call. The other fields are then empty.
  std::string missing = {};
  std::vector<double> seconds = {};     ///< the slowest rank's time of one call, per round
  std::vector<double> throughput = {};  ///< the same in throughput mode
  std::uint64_t wrong_elements = 0;     ///< sum over all checks and ranks
  bool computes = true;                 ///< false: there is no result to check
  std::string algorithm = {};
};

}  // namespace tutti::app::bench
