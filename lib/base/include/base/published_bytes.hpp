#pragma once

#include <cstddef>

namespace tutti {

/// Maximum bytes that a rank publishes at once in its host's shared memory, in a collective of the
/// whole job; all hosts cut their buffers by it, whatever memory they have.
inline constexpr std::size_t max_published_bytes = std::size_t{256} << 10;
/// The same in other communicators, of which a host may have many.
inline constexpr std::size_t max_published_bytes_of_others = std::size_t{64} << 10;

}  // namespace tutti
