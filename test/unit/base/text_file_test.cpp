// Reading small files, and taking lines and words from them.
#include "base/text_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/catch.hpp"

namespace tutti::test {

TEST_CASE("a file is read to its end, whatever its size says") {
  auto name = (std::filesystem::temp_directory_path() / "tutti-text-XXXXXX").string();
  const int file = ::mkstemp(name.data());
  REQUIRE(file >= 0);
  ::close(file);
  CHECK(read_text_file(name.c_str()) == "");
  const std::string text(10'000, 'x');
  std::ofstream(name) << text << "\nend";
  CHECK(read_text_file(name.c_str()) == text + "\nend");
  std::filesystem::remove(name);
  CHECK_FALSE(read_text_file(name.c_str()).has_value());
  CHECK(errno == ENOENT);
  // The size of a file in /proc is zero.
  const auto status = read_text_file("/proc/self/stat");
  REQUIRE(status.has_value());
  CHECK(status->starts_with(std::to_string(::getpid()) + " ("));
  // A directory can be opened, but not read.
  CHECK_FALSE(read_text_file("/proc/self").has_value());
}

TEST_CASE("lines are taken without their ends") {
  std::string_view text = "a b\n\nlast";
  CHECK(take_line(text) == "a b");
  CHECK(take_line(text).empty());
  CHECK(text == "last");
  CHECK(take_line(text) == "last");
  CHECK(text.empty());
  CHECK(take_line(text).empty());
  text = "ended\n";
  CHECK(take_line(text) == "ended");
  CHECK(text.empty());
}

TEST_CASE("words are separated by any number of blanks") {
  std::string_view text = "  50000 \t100000\n";
  CHECK(take_word(text) == "50000");
  CHECK(take_word(text) == "100000");
  CHECK(take_word(text).empty());
  CHECK(take_word(text).empty());
  text = "one";
  CHECK(take_word(text) == "one");
  CHECK(text.empty());
}

}  // namespace tutti::test
