#include "text.hpp"

#include <fmt/format.h>

#include <array>
#include <sstream>
#include <utility>

namespace tutti::app {

std::string size_text(std::size_t bytes) {
  constexpr std::array<std::pair<std::size_t, const char*>, 3> units{
      {{std::size_t{1} << 30, "GiB"},
       {std::size_t{1} << 20, "MiB"},
       {std::size_t{1} << 10, "KiB"}}};
  for (const auto& [unit, name] : units) {
    // Only units that three decimals express exactly: the printed size is never rounded.
    if (bytes >= unit && (bytes % unit) * 1000 % unit == 0) {
      return fmt::format("{:g} {}", static_cast<double>(bytes) / static_cast<double>(unit), name);
    }
  }
  return fmt::format("{} B", bytes);
}

std::string time_text(std::chrono::duration<double> time) {
  const double seconds = time.count();
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string count_text(long count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string mpi_version_text(const std::string& version) {
  std::istringstream words(version.substr(0, version.find_first_of(",\n")));
  std::string text;
  std::string word;
  while (words >> word) {
    if (word != "Version:") text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace tutti::app
