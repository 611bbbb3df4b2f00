#pragma once

#include <sched.h>

#include <chrono>

namespace tutti {

/// For spin loops: frees the core's other hardware thread for some cycles.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// How the threads of a rank wait for other ranks: they spin, then yield the core, then sleep. One
/// object for all paths of a job; all figures are here.
///
/// A wake-up on another core takes 40 to 60 µs (measured), so spinning that long at most doubles a
/// wait. If the host has more ranks than cores, the awaited rank may need this core: threads yield
/// instead.
class WaitPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  /// What a thread does from poll to poll until it sleeps: `spins` polls, of which the first have
  /// no pause, then polls for as long as `limit`.
  struct Stages {
    int spins = 0;
    int spins_without_pause = 0;
    Clock::duration limit{};
    bool yields = false;  ///< between the polls after the spins
  };

  /// Most waits for a rank on the same core end within some tens of microseconds.
  static constexpr std::chrono::microseconds max_yield_time{200};
  /// A message without a task: a thread polls for about 15 µs (turns × polls). If other processes
  /// compute, a turn takes long and sleeping is better.
  static constexpr int inline_turns = 16;
  /// Turns of an engine, about 25 µs, before it yields between turns: other programs may need the
  /// core that seems to be this rank's own, and among them may be the awaited rank of another host.
  static constexpr int link_turns = 24;
  /// Turns of an engine without links to other hosts between two polls of the sockets, by which its
  /// peers only wake it: a system call takes longer than a message through a ring.
  static constexpr unsigned turns_per_socket_poll = 16;

  // Maximum sleep of the thread that runs the progress engine.
  static constexpr std::chrono::milliseconds max_sleep{100};        ///< peers, deadlines
  static constexpr std::chrono::milliseconds max_shared_sleep{10};  ///< calls in shared memory only
  static constexpr std::chrono::microseconds max_mixed_sleep{100};  ///< beside calls over links
  static constexpr std::chrono::microseconds callback_interval{100};  ///< Options::while_waiting

  explicit WaitPolicy(bool shares_cores) : shares_cores_(shares_cores) {}

  [[nodiscard]] bool shares_cores() const { return shares_cores_; }
  /// A blocking call in shared memory, without the progress engine. A short wait is over soonest
  /// without pauses; a longer one leaves the core's other hardware thread alone.
  [[nodiscard]] Stages own_call() const {
    return {shares_cores_ ? 0 : 2000, 50, max_yield_time, true};
  }
  /// The progress engine in calls in shared memory. The progress thread sleeps at once: the program
  /// computes and needs the core.
  [[nodiscard]] static Stages shared_calls(bool is_progress_thread) {
    return {.limit = is_progress_thread ? Clock::duration::zero() : max_yield_time, .yields = true};
  }
  /// The progress engine in calls over links. Over sockets, a peer on the same core only needs its
  /// turn.
  [[nodiscard]] Stages links(bool has_rings) const {
    if (!shares_cores_) {
      return {.spins = link_turns,
              .spins_without_pause = link_turns,
              .limit = std::chrono::microseconds(50),
              .yields = true};
    }
    return {.limit = has_rings ? max_yield_time : std::chrono::microseconds(20), .yields = true};
  }
  /// Polls of the rings in a turn of the engine, which also reads the clock and, with links to
  /// other hosts, polls the sockets: as long as that takes, so that both kinds of links are served
  /// alike.
  [[nodiscard]] int ring_polls(bool has_sockets) const {
    if (shares_cores_) return 1;
    return has_sockets ? 4 : 64;
  }
  /// Polls in a turn of a message without a task.
  [[nodiscard]] int inline_polls() const { return shares_cores_ ? 1 : 64; }
  /// Between two such turns.
  [[nodiscard]] Stages inline_message() const {
    if (!shares_cores_) return {.spins = inline_turns, .spins_without_pause = inline_turns};
    return {.limit = max_yield_time, .yields = true};
  }

 private:
  bool shares_cores_;
};

/// One wait of one thread.
class Wait {
 public:
  using Clock = WaitPolicy::Clock;

  /// Something has moved.
  void reset() { *this = {}; }
  /// The thread has polled elsewhere: sleep next.
  void skip_polls() { is_over_ = true; }
  /// After a poll without success: pauses or yields and returns true, or returns false if it is
  /// time to sleep.
  [[nodiscard]] bool may_poll(const WaitPolicy::Stages& stages) {
    if (is_over_) return false;
    if (polls_ < stages.spins) {
      if (polls_++ >= stages.spins_without_pause) pause_briefly();
      return true;
    }
    // Not at first: even reading the clock delays a rank that needs this core.
    const bool is_first = polls_++ == stages.spins;
    if (!is_first || stages.limit == Clock::duration::zero()) {
      const auto now = Clock::now();
      if (since_ == Clock::time_point()) since_ = now;
      is_over_ = now - since_ >= stages.limit;
      if (is_over_) return false;
    }
    if (stages.yields) ::sched_yield();
    return true;
  }
  /// Since about its first poll without success.
  [[nodiscard]] bool has_lasted(Clock::duration time) const {
    return since_ != Clock::time_point() && Clock::now() - since_ >= time;
  }

 private:
  int polls_ = 0;
  bool is_over_ = false;
  Clock::time_point since_{};
};

}  // namespace tutti
