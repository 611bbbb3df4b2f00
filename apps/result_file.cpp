#include "result_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/system_error.hpp"
#include "output.hpp"

namespace tutti::app {

ResultFile::ResultFile(Communicator& communicator, std::string path, const char* option)
    : path_(std::move(path)) {
  if (!wanted() || is_standard_output()) return;
  std::array<std::uint8_t, 1> usable{1};
  if (communicator.rank() == 0) {
    std::error_code ignored;
    made_here_ = !std::filesystem::exists(path_, ignored);
    usable[0] = std::ofstream(path_, std::ios::app).good() ? 1 : 0;
    if (usable[0] == 0) made_here_ = false;
  }
  communicator.broadcast(std::span(usable), 0);
  if (usable[0] != 0) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} {} can't be written: check that its folder exists and is writable",
                          option, path_));
}

ResultFile::~ResultFile() {
  if (made_here_) std::remove(path_.c_str());
}

void ResultFile::write(const std::string& text) {
  if (is_standard_output()) {
    print(text);
    return;
  }
  std::ofstream stream(path_);
  stream << text;
  stream.close();
  const int reason = errno;
  if (!stream) throw system_error(fmt::format("can't write {}", path_), reason);
  made_here_ = false;
}

}  // namespace tutti::app
