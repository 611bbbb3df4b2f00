#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace tutti::test {

/// A new seed per run, or $TUTTI_TEST_SEED to reproduce a failure.
inline std::uint64_t random_seed() {
  if (const char* given = std::getenv("TUTTI_TEST_SEED")) return std::stoull(given);
  return std::random_device{}();
}

}  // namespace tutti::test
