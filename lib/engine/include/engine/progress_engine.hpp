#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "control/plane.hpp"
#include "engine/call_checker.hpp"
#include "engine/task.hpp"
#include "transport/links.hpp"
#include "transport/shared_segment.hpp"

namespace tutti::engine {

/// Moves all calls in flight of a process forward. One thread at a time drives: a thread that waits
/// for a call, or else, where calls were started and nobody waits, a thread of the
/// progress_engine's own. Whoever drives moves everybody's calls.
class ProgressEngine {
 public:
  /// `segment` is what this host's ranks share, or null. `while_waiting` is called by threads that
  /// wait here, or is null.
  ProgressEngine(control::Plane& plane, transport::Links& links, CallChecker& checker,
                 std::shared_ptr<transport::SharedSegment> segment,
                 std::function<void()> while_waiting)
      : plane_(plane),
        links_(links),
        checker_(checker),
        segment_(std::move(segment)),
        while_waiting_(std::move(while_waiting)),
        shares_cores_(plane.peers().shares_cores()) {}
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;
  ~ProgressEngine();

  /// Returns when the call is done; throws what it has met.
  void run(Task& task);
  /// Sends and receives messages of a few bytes without a task, where no other call is in flight:
  /// what is done leaves `messages`. True if all is.
  bool try_inline(Messages& messages);
  /// Makes the thread that moves calls while nobody waits, if there is none yet. Where
  /// the system has no more threads the job is over on all ranks, and this throws why.
  void make_progress_thread();
  /// Returns at once. Only after make_progress_thread().
  void start(const std::shared_ptr<Task>& task);
  /// True when the call has finished, whether well or not; false at `limit`.
  bool wait(Task& task, Deadline limit);
  /// Returns when the group's calls that were started are over, at the latest at their deadlines.
  void wait_for_all(const control::Group& group);
  /// Waits up to `limit` for the group's calls; past it the job's communication is over, since its
  /// peers wait for what will not come. Afterwards the group has no call in flight.
  void leave(const control::Group& group, std::chrono::nanoseconds limit);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void add(Task& task);
  bool wait(Lock& lock, Task& task, Deadline limit);
  void poke();
  template <class Stop>
  void drive(Lock& lock, Deadline limit, Stop stop);
  void help();
  [[nodiscard]] bool has_tasks() const { return !in_flight_.empty(); }
  [[nodiscard]] std::shared_ptr<Task> find(const control::Group& group);
  bool publish();

  // By the thread that drives, without the mutex.
  void move_all(Deadline limit);
  bool advance_all();
  void activate(Task& task);
  void activate_messages(Task& task);
  bool advance(Task& task);
  bool progress(std::chrono::nanoseconds longest);
  bool sleep_in_segment(std::chrono::nanoseconds limit);
  [[nodiscard]] std::vector<Awaited> awaited(const Task& task) const;
  void look_for_trouble(bool moved);
  void check_peers(Task& task);
  static void note_awaited(Task& task, const std::vector<Awaited>& all);
  void check_members(Task& task);
  [[noreturn]] void fail_departed(int peer, const Task& task);
  void check_peer(Task& task, const Awaited& awaited, bool departed_before);
  [[noreturn]] void fail(const control::FailureReport& report, const Task& task);
  void complete(Task& task);
  void close(Task& task);
  void fail_all();
  void tell(const Task& failed_rank, const std::exception_ptr& error);
  void fail_all_with(Task& failed_rank, const std::exception_ptr& error);

  control::Plane& plane_;
  transport::Links& links_;
  CallChecker& checker_;
  std::shared_ptr<transport::SharedSegment> segment_;
  std::function<void()> while_waiting_;
  bool shares_cores_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task*> in_flight_;  ///< all, from add() to publish()
  std::vector<Task*> incoming_;   ///< those that the driving thread has not taken yet
  bool driving_ = false;
  bool progress_thread_drives_ = false;
  bool stop_ = false;
  int waiters_ = 0;
  std::thread progress_thread_;

  // The driving thread's.
  std::vector<Task*> active_;
  std::vector<Task*> over_;  ///< finished, and not yet published
  Task* current_ = nullptr;
  // Of calls by shared memory.
  std::optional<std::chrono::steady_clock::time_point> idle_since_;
  bool shared_has_moved_ = false;
};

}  // namespace tutti::engine
