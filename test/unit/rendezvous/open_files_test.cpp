// Counting the open files of this process.
#include "rendezvous/open_files.hpp"

#include <fcntl.h>

#include <filesystem>
#include <vector>

#include "base/descriptor.hpp"
#include "support/catch.hpp"

namespace tutti::rendezvous::test {
namespace {

/// By the folder's entries, of which one is the folder itself.
std::uint64_t count_by_names() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::uint64_t>(std::distance(begin(files), end(files))) - 1;
}

}  // namespace

TEST_CASE("every open file is counted") {
  const auto before = count_open_files();
  CHECK(before == count_by_names());
  std::vector<Descriptor> files;
  for (int i = 0; i < 100; ++i) files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(count_open_files() == before + 100);
  CHECK(count_open_files() == count_by_names());
  files.clear();
  CHECK(count_open_files() == before);
}

}  // namespace tutti::rendezvous::test
