#pragma once

#include <cstddef>

namespace tutti {

/// The unit in which shared memory is laid out. A system whose pages are larger maps whole ones.
inline constexpr std::size_t page_bytes = 4096;

/// `bytes` rounded up to whole pages.
[[nodiscard]] constexpr std::size_t up_to_a_page(std::size_t bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace tutti
