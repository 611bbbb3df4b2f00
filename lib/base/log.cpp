#include "base/log.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace tutti {

void Log::write(LogLevel level, const std::string& text) {
  if (!enabled(level)) return;
  const std::lock_guard lock(mutex_);
  if (sink_) {
    sink_(level, text);
    return;
  }
  // One call a line, so that the lines of several ranks don't mix.
  const auto line = rank_ >= 0 ? fmt::format("tutti [rank {}] {}\n", rank_, text)
                               : fmt::format("tutti {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace tutti
