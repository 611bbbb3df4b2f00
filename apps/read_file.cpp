#include "read_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tutti/error.hpp"

namespace tutti::app {

std::string read_file(const std::string& path, std::string_view what) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path == "-" ? "/dev/stdin" : path.c_str(), "rb"), &std::fclose);
  std::string text;
  std::array<char, 1 << 16> part{};
  std::size_t got = 1;
  while (file && got > 0) {
    got = std::fread(part.data(), 1, part.size(), file.get());
    text.append(part.data(), got);
  }
  if (!file || std::ferror(file.get()) != 0) {
    throw Error(ErrorCode::usage,
                fmt::format("can't read {} {}: {}", what, path, std::strerror(errno)));
  }
  return text;
}

}  // namespace tutti::app
