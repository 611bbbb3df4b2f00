#include "rendezvous/open_files.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>

namespace tutti::rendezvous {

std::uint64_t raised_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur;
}

std::uint64_t count_open_files() {
  constexpr const char* folder = "/proc/self/fd";
  // Its size is the number since Linux 6.2, and zero before.
  struct stat status {};
  if (::stat(folder, &status) == 0 && status.st_size > 0) {
    return static_cast<std::uint64_t>(status.st_size);
  }
  std::error_code error;
  const std::filesystem::directory_iterator files(folder, error);
  if (error) return 0;
  // One is the folder itself, which is open here.
  return static_cast<std::uint64_t>(std::distance(begin(files), end(files))) - 1;
}

}  // namespace tutti::rendezvous
