#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

/// What the kernel says of this process's memory.
namespace tutti::test {

/// The flags of the mapping that holds `address`, from /proc/self/smaps: " rd wr mr mw me ac dd ",
/// with a blank at either end; empty where there is none. "dd": left out of core files, "lo":
/// locked.
inline std::string mapping_flags(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream file("/proc/self/smaps");
  std::string line;
  bool is_it = false;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      is_it = wanted >= begin && wanted < end;
    } else if (is_it && line.starts_with("VmFlags:")) {
      return line.substr(8) + " ";
    }
  }
  return {};
}

}  // namespace tutti::test
