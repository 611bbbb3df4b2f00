#pragma once

#include <cstdint>

namespace tutti::rendezvous {

/// How many files this process may open: the soft limit, raised to the hard one. 0: not known.
[[nodiscard]] std::uint64_t raised_file_limit();
/// How many it has open; 0: not known.
[[nodiscard]] std::uint64_t count_open_files();

}  // namespace tutti::rendezvous
