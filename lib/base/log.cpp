#include "base/log.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace tutti {

void Log::write(LogLevel level, const std::string& text) {
  if (!enabled(level)) return;
  // A message logged from within the sink bypasses it.
  const bool is_in_sink = in_sink_.load() == std::this_thread::get_id();
  if (sink_ && !is_in_sink) {
    const std::lock_guard lock(mutex_);
    in_sink_ = std::this_thread::get_id();
    struct Leave {
      std::atomic<std::thread::id>& in_sink;
      ~Leave() { in_sink = std::thread::id(); }
    };
    const Leave leave{in_sink_};
    sink_(level, text);
    return;
  }
  // One write per line, so that lines of several ranks do not mix.
  const auto line = rank_ >= 0 ? fmt::format("tutti [rank {}] {}\n", rank_, text)
                               : fmt::format("tutti {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace tutti
