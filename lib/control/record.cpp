#include "record.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/system_error.hpp"

namespace tutti::control {
namespace {

// A signal handler can access static data only.
std::atomic<unsigned> signals{0};
static_assert(std::atomic<unsigned>::is_always_lock_free);

double microseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-3;
}

template <class Clock>
std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

void install_signal_handler() {
  struct sigaction current {};
  if (::sigaction(SIGUSR1, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
  struct sigaction action {};
  action.sa_handler = [](int) { signals.fetch_add(1, std::memory_order_relaxed); };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
}

std::size_t bytes_of(const CallSignature& call) {
  return static_cast<std::size_t>(call.count) * size_of(call.type);
}

}  // namespace

std::string record_json(const rendezvous::Peers& peers, const CallHistories& histories,
                        const std::string& reason) {
  const auto now = now_ns<std::chrono::system_clock>();
  const auto to_wall = now - now_ns<std::chrono::steady_clock>();
  auto communicators = nlohmann::json::array();
  for (const auto& history : histories.all()) {
    auto calls = nlohmann::json::array();
    for (const auto& past : history->record()) {
      nlohmann::json call{{"sequence", past.sequence},
                          {"operation", name(past.call.operation)},
                          {"call", describe(past.call, history->group())},
                          {"bytes", bytes_of(past.call)},
                          {"begin_us", microseconds(past.begin + to_wall)},
                          {"end_us", nullptr}};
      if (past.end != 0) call["end_us"] = microseconds(past.end + to_wall);
      if (!past.awaited.empty()) call["awaited"] = past.awaited;
      calls.push_back(std::move(call));
    }
    communicators.push_back({{"communicator", history->group().id},
                             {"ranks", history->group().world},
                             {"sequence", history->activity().sequence},
                             {"calls", std::move(calls)}});
  }
  const auto& info = peers.info(peers.rank());
  const nlohmann::json record{{"schema", 1},          {"rank", peers.rank()},
                              {"size", peers.size()}, {"host", info.host.name},
                              {"pid", info.pid},      {"written_us", microseconds(now)},
                              {"reason", reason},     {"communicators", std::move(communicators)}};
  // Host names may be invalid UTF-8.
  return record.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string write_record(const std::string& folder, const rendezvous::Peers& peers,
                         const CallHistories& histories, const std::string& reason) {
  try {
    const auto text = record_json(peers, histories, reason);
    std::filesystem::create_directories(folder);
    const auto path =
        fmt::format("{}/rank{}-pid{}.json", folder, peers.rank(), peers.info(peers.rank()).pid);
    // Renamed when complete, so that readers see a whole file.
    const auto unfinished = path + ".part";
    std::FILE* const file = std::fopen(unfinished.c_str(), "we");
    if (file == nullptr) return fmt::format("can't write {}: {}", path, errno_text(errno));
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !written) {
      return fmt::format("can't write {}: {}", path, errno_text(errno));
    }
    std::filesystem::rename(unfinished, path);
    return {};
  } catch (const std::exception& error) {
    return fmt::format("can't write a record to TUTTI_RECORD={}: {}", folder, error.what());
  }
}

Recorder::Recorder(std::string folder, const rendezvous::Peers& peers,
                   const CallHistories& histories, Log& log)
    : folder_(std::move(folder)), peers_(peers), histories_(histories), log_(log) {
  if (!folder_.empty()) install_signal_handler();
}

void Recorder::write(const std::string& reason) const {
  if (folder_.empty()) return;
  const auto failure = write_record(folder_, peers_, histories_, reason);
  if (!failure.empty()) log_.warning(failure);
}

void Recorder::write_failure(const std::string& sentence) {
  if (!has_failure_.exchange(true)) write(sentence);
}

void Recorder::write_if_signalled() {
  const auto seen = signals.load(std::memory_order_relaxed);
  if (std::exchange(signals_seen_, seen) != seen) write("requested by SIGUSR1");
}

}  // namespace tutti::control
