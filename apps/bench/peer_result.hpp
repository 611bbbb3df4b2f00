#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::app::bench {

/// Times and errors of one peer for one call; the same on all ranks.
struct PeerResult {
  std::string missing = {};             ///< why it can't do it; then the rest is empty
  std::vector<double> seconds = {};     ///< of each round the slowest rank's time of one call
  std::vector<double> throughput = {};  ///< the same of a call among many without a barrier
  std::uint64_t wrong_elements = 0;     ///< over all checks and ranks
  bool computes = true;                 ///< else there was no result to check
  std::string algorithm = {};
};

}  // namespace tutti::app::bench
