#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tutti::app {

/// "4 MiB", "1.5 KiB", "12 B": exact, in the largest unit that needs at most three decimals.
[[nodiscard]] std::string size_text(std::size_t bytes);

/// "850 us", "1.9 ms", "2.31 s"
[[nodiscard]] std::string time_text(std::chrono::duration<double> time);

/// "1 rank", "4 ranks"
[[nodiscard]] std::string count_text(long count, const char* noun);

/// "MPICH 4.0.2" from "MPICH Version:\t4.0.2\n…", the text of MPI_Get_library_version().
[[nodiscard]] std::string mpi_version_text(const std::string& version);

}  // namespace tutti::app
