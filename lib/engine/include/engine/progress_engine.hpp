#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/wait_policy.hpp"
#include "control/failure_detector.hpp"
#include "control/status_exchange.hpp"
#include "engine/call_checker.hpp"
#include "engine/task.hpp"
#include "transport/links.hpp"
#include "transport/shared_segment.hpp"

namespace tutti::engine {

/// Advances all calls in flight of a process. One thread at a time runs the engine: a thread
/// blocked in a call or, if there are only non-blocking calls, the progress thread. The running
/// thread advances the calls of all threads.
class ProgressEngine {
 public:
  /// The references must outlive it; `wakeup` wakes the thread that waits in `links`. `segment` is
  /// the host's shared segment, or null. `while_waiting` is called by threads that block in a call;
  /// it may be null.
  ProgressEngine(control::FailureDetector& detector, control::StatusExchange& statuses,
                 const Wakeup& wakeup, transport::Links& links, CallChecker& checker,
                 std::shared_ptr<transport::SharedSegment> segment,
                 std::function<void()> while_waiting, WaitPolicy waits)
      : detector_(detector),
        statuses_(statuses),
        wakeup_(wakeup),
        links_(links),
        checker_(checker),
        segment_(std::move(segment)),
        while_waiting_(std::move(while_waiting)),
        waits_(waits) {
    awaited_.reserve(Execution::window);
    awaited_peers_.reserve(Execution::window);
  }
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;
  ~ProgressEngine();

  /// Blocks until the call is done. Throws the call's error.
  void run(Task& task);
  /// Sends and receives messages of a few bytes without a task, if no other call is in flight.
  /// Removes completed messages from `messages`; returns true if all are complete.
  bool try_inline(Messages& messages);
  /// Starts the progress thread unless it runs. If the system refuses a thread, fails the job on
  /// all ranks and throws the reason.
  void make_progress_thread();
  /// Returns immediately. Requires make_progress_thread().
  void start(const std::shared_ptr<Task>& task);
  /// Returns true when the call has finished, successfully or not; false at `limit`.
  bool wait(Task& task, Deadline limit);
  /// Blocks until all non-blocking calls of the group have finished, at the latest at their
  /// deadlines.
  void wait_for_all(const control::Group& group);
  /// Waits up to `limit` for the group's calls, then aborts the job, because the peers wait for
  /// data that will not come. On return no call of the group is in flight.
  void leave(const control::Group& group, std::chrono::nanoseconds limit);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void add(Task& task);
  bool wait(Lock& lock, Task& task, Deadline limit);
  void wake();
  template <class Stop>
  void run_engine(Lock& lock, Deadline limit, Stop stop);
  void progress_thread_loop();
  [[nodiscard]] bool has_tasks() const { return !in_flight_.empty(); }
  [[nodiscard]] std::shared_ptr<Task> find(const control::Group& group);
  bool publish();

  // Called by the running thread without the mutex.
  void advance_and_wait(Deadline limit);
  bool advance_all();
  void activate(Task& task);
  void start_schedule(Task& task);
  void start_messages(Task& task);
  bool find_any(Task& task);
  bool advance(Task& task);
  bool progress(std::chrono::nanoseconds max_wait);
  bool sleep_in_segment(std::chrono::nanoseconds limit);
  [[nodiscard]] const std::vector<Awaited>& awaited(Task& task);
  void check_tasks(bool moved);
  void check_peers(Task& task);
  void note_awaited(Task& task);
  void compare_calls_of(Task& task, int rank);
  [[noreturn]] void fail_departed(int peer, const Task& task);
  void check_peer(Task& task, const Awaited& awaited, bool departed_before);
  [[noreturn]] void fail(const control::FailureReport& report, const Task& task);
  void complete(Task& task);
  void retire(Task& task);
  void abandon_memory();
  void fail_all();
  void report_failure(const Task& failed_task, const std::exception_ptr& error);
  void fail_all_with(Task& failed_task, const std::exception_ptr& error);

  control::FailureDetector& detector_;
  control::StatusExchange& statuses_;
  const Wakeup& wakeup_;
  transport::Links& links_;
  CallChecker& checker_;
  std::shared_ptr<transport::SharedSegment> segment_;
  std::function<void()> while_waiting_;
  WaitPolicy waits_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task*> in_flight_;  ///< from add() to publish()
  std::vector<Task*> incoming_;   ///< not yet taken by the running thread
  bool running_ = false;
  bool progress_thread_runs_ = false;
  bool stop_ = false;
  int waiters_ = 0;
  std::thread progress_thread_;

  // Used by the running thread only.
  std::vector<Task*> active_;
  std::vector<Task*> finished_;  ///< finished, not yet published
  Task* current_ = nullptr;
  // Of the latest check: checks of a short call must not allocate.
  std::vector<Awaited> awaited_;
  std::vector<int> awaited_peers_;
  // For shared-memory calls.
  Wait shared_wait_;
  bool shared_has_moved_ = false;
};

}  // namespace tutti::engine
