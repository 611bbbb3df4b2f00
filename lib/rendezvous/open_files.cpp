#include "rendezvous/open_files.hpp"

#include <sys/resource.h>

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
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : static_cast<std::uint64_t>(std::distance(begin(files), end(files)));
}

}  // namespace tutti::rendezvous
