#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

/// InjectedFaults on purpose (TUTTI_FAULT), for users who test how their program takes them.
namespace tutti {

enum class FaultKind : std::uint8_t {
  kill,                  ///< SIGKILL to the own process
  stop,                  ///< SIGSTOP
  delay,                 ///< sleeps
  drop_link,             ///< shuts the data connections with a peer
  short_writes,          ///< hands the kernel only a few bytes at a time
  refuse_shared_memory,  ///< as if the system gave none
};

struct Fault {
  FaultKind kind = FaultKind::kill;
  std::optional<int> rank;          ///< empty: every rank
  std::uint64_t call = 1;           ///< before this call of the rank; the first is 1
  int peer = -1;                    ///< drop_link
  std::chrono::nanoseconds time{};  ///< delay
  std::size_t bytes = 1;            ///< short_writes: at most so many at a time
};

/// "kill:rank=2,call=100;delay:rank=1,call=5,time=50ms". Throws Error{usage} that names the part
/// which is wrong.
[[nodiscard]] std::vector<Fault> parse_faults(std::string_view text);

/// The faults that are meant for one rank. Where there are none, a call costs one look at a bool.
class InjectedFaults {
 public:
  InjectedFaults() = default;
  /// Throws Error{usage} where a fault names a rank or peer that the job does not have.
  InjectedFaults(const std::vector<Fault>& all, int rank, int size);

  /// To be called at the start of each call, collective or message: kills, stops or delays the
  /// process where that is due.
  void before_call() {
    if (has_timed_) count_call();
  }
  [[nodiscard]] bool has_link_to_drop() const { return has_links_to_drop_; }
  /// A peer whose data connections are to be shut now, each one once; -1: none.
  [[nodiscard]] int take_link_to_drop();
  /// How many bytes a write may have; 0: as many as there are.
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
