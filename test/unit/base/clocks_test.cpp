// No wait uses a clock that can be set.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "base/reactor.hpp"
#include "support/catch.hpp"
#include "tutti/deadline.hpp"

namespace tutti::test {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The words in `text` that name a settable clock.
std::vector<std::string> settable_clocks_in(const std::string& text) {
  std::vector<std::string> found;
  for (const char* const word :
       {"system_clock", "high_resolution_clock", "gettimeofday", "CLOCK_REALTIME", "utc_clock",
        "FUTEX_CLOCK_REALTIME", "pthread_cond_timedwait", "sem_timedwait", "time(nullptr)",
        "::time(", "ftime(", "wait_until("}) {
    if (text.find(word) != std::string::npos) found.emplace_back(word);
  }
  return found;
}

}  // namespace

TEST_CASE("settable clocks are recognised") {
  CHECK(settable_clocks_in("std::chrono::system_clock::now()").size() == 1);
  CHECK(settable_clocks_in("::gettimeofday(&now, nullptr)").size() == 1);
  CHECK(settable_clocks_in("std::chrono::steady_clock::now()").empty());
}

TEST_CASE("no wait and no deadline of the library depends on the wall clock") {
  static_assert(Reactor::Clock::is_steady);
  static_assert(Deadline::Clock::is_steady);
  const auto root = std::filesystem::path(TUTTI_SOURCE_ROOT) / "lib";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const auto extension = entry.path().extension();
    if (extension != ".cpp" && extension != ".hpp") continue;
    ++files;
    auto clocks = settable_clocks_in(text_of(entry.path()));
    // The recorder writes wall-clock times into its files.
    if (entry.path().filename() == "record.cpp") std::erase(clocks, "system_clock");
    CAPTURE(entry.path().string());
    CHECK(clocks == std::vector<std::string>());
  }
  CHECK(files > 100);
}

}  // namespace tutti::test
