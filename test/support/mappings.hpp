#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

/// Information from the kernel about this process's memory.
namespace tutti::test {

/// Flags of the mapping that contains `address`, from /proc/self/smaps: " rd wr mr mw me ac dd ",
/// with a blank at both ends; empty if there is no mapping. "dd": excluded from core files, "lo":
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
