#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

/// Fault injection (TUTTI_FAULT), for users who test how their program handles faults.
namespace tutti {

enum class FaultKind : std::uint8_t {
  kill,                  ///< SIGKILL to this process
  stop,                  ///< SIGSTOP
  delay,                 ///< sleeps
  drop_link,             ///< shuts the data connections with a peer
  short_writes,          ///< limits the bytes per write
  refuse_shared_memory,  ///< set-up of shared memory fails
};

struct Fault {
  FaultKind kind = FaultKind::kill;
  std::optional<int> rank;          ///< empty: every rank
  std::uint64_t call = 1;           ///< before this call of the rank, counted from 1
  int peer = -1;                    ///< drop_link
  std::chrono::nanoseconds time{};  ///< delay
  std::size_t bytes = 1;            ///< short_writes: maximum bytes per write
};

/// Parses "kill:rank=2,call=100;delay:rank=1,call=5,time=50ms". Throws Error{usage} that names the
/// invalid part.
[[nodiscard]] std::vector<Fault> parse_faults(std::string_view text);

/// The faults of one rank. Without faults, a call costs one load of a bool.
class InjectedFaults {
 public:
  InjectedFaults() = default;
  /// Throws Error{usage} if a fault names a rank or peer that is out of range.
  InjectedFaults(const std::vector<Fault>& all, int rank, int size);

  /// Call at the start of each collective call or message: kills, stops or delays the process if
  /// due.
  void before_call() {
    if (has_timed_) count_call();
  }
  [[nodiscard]] bool has_link_to_drop() const { return has_links_to_drop_; }
  /// A peer whose data connections must be shut down now, each reported once; -1: none.
  [[nodiscard]] int take_link_to_drop();
  /// Maximum bytes per write; 0: no limit.
  [[nodiscard]] std::size_t max_written_bytes() const { return max_written_bytes_; }
  [[nodiscard]] bool refuses_shared_memory() const { return refuses_shared_memory_; }

 private:
  void count_call();

  std::vector<Fault> timed_;
  bool has_timed_ = false;
  std::atomic<std::uint64_t> calls_{0};
  std::mutex mutex_;
  std::vector<int> links_to_drop_;
  std::atomic<bool> has_links_to_drop_{false};
  std::size_t max_written_bytes_ = 0;
  bool refuses_shared_memory_ = false;
};

}  // namespace tutti
