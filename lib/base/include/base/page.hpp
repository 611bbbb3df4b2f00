#pragma once

#include <cstddef>

namespace tutti {

/// Layout unit of shared memory. Systems with larger pages map whole ones.
inline constexpr std::size_t page_bytes = 4096;

/// Rounds `bytes` up to whole pages.
[[nodiscard]] constexpr std::size_t round_up_to_page(std::size_t bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace tutti
