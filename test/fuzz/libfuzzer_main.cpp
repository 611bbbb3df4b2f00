// libFuzzer's entry for the one target that TUTTI_FUZZ_TARGET names.
#include <cstdint>

#include "targets.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::TUTTI_FUZZ_TARGET(std::as_bytes(std::span(data, size)));
  return 0;
}
