#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tutti/options.hpp"

namespace tutti {

/// One process's log. Safe to use from any thread, and from the sink.
class Log {
 public:
  using Sink = std::function<void(LogLevel, const std::string&)>;

  /// Without a sink, lines go to standard error as "tutti [rank R] text".
  Log(LogLevel level, Sink sink) : level_(level), sink_(std::move(sink)) {}

  void set_rank(int rank) { rank_ = rank; }
  [[nodiscard]] bool enabled(LogLevel level) const { return level <= level_; }
  void warning(const std::string& text) { write(LogLevel::warning, text); }
  void info(const std::string& text) { write(LogLevel::info, text); }
  void debug(const std::string& text) { write(LogLevel::debug, text); }

 private:
  void write(LogLevel level, const std::string& text);
  LogLevel level_;
  Sink sink_;
  int rank_ = -1;
  std::mutex mutex_;  ///< the sink is called by one thread at a time
  std::atomic<std::thread::id> in_sink_{};
};

}  // namespace tutti
