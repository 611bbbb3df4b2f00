#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace tutti::preload {

/// What is seen of a communicator's calls at one moment.
struct SeenCalls {
  bool has_open = false;          ///< calls outside of graphs that may not be complete
  bool has_open_at_nccl = false;  ///< NCCL has taken one of these
  bool has_answered = true;       ///< false: the device did not, so the two below are not known
  std::uint64_t ended = 0;        ///< grows when a call ends, whoever took it, in graphs too
  std::uint64_t waits = 0;        ///< changes while a kernel of the direct path waits for a rank
  bool has_ended_rank = false;    ///< another rank's process has ended
  bool has_lost_rank = false;     ///< and not in order: it crashed, or was killed
};

/// Decides, from looks every second, and every 100 ms once a rank has ended, whether a
/// communicator's calls are late or lost. A rank may end once it has sent what others need, so its
/// end alone means nothing. Not thread-safe.
class CallWatch {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Verdict : std::uint8_t {
    none,
    late,  ///< no call has ended for the timeout though one is open; once, until one ends
    lost,  ///< a call waits, or seems to wait, for a rank that has ended
  };

  CallWatch(std::chrono::nanoseconds timeout, Clock::time_point start)
      : timeout_(timeout), open_since_(start), waiting_since_(start) {}
  [[nodiscard]] Verdict look(Clock::time_point now, const SeenCalls& seen);
  /// Instead of a look: there are no calls to look at.
  void rest(Clock::time_point now);
  /// How long no call has ended though one is open.
  [[nodiscard]] Clock::duration open_for(Clock::time_point now) const { return now - open_since_; }

 private:
  std::chrono::nanoseconds timeout_;
  SeenCalls answered_;  ///< the latest look that the device answered
  Clock::time_point open_since_;
  Clock::time_point waiting_since_;
  std::optional<Clock::time_point> ended_at_;  ///< a rank's process
  std::optional<Clock::time_point> lost_at_;   ///< the same, not in order
  bool is_reported_ = false;
};

}  // namespace tutti::preload
