#pragma once

#include <cstdint>

namespace tutti::rendezvous {

/// Raises this process's soft limit on open files to the hard limit and returns it; 0 if unknown.
[[nodiscard]] std::uint64_t raised_file_limit();
/// Number of open files of this process; 0 if unknown.
[[nodiscard]] std::uint64_t count_open_files();

}  // namespace tutti::rendezvous
