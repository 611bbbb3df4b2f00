#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/communicator.hpp"

/// Runs the ranks of a job as child processes, without MPI, and collects their results.
///
///     auto reports = run_ranks(4, [](Rank& rank) -> std::string {
///       auto& communicator = rank.communicator();
///       ...
///       return "done";
///     });
///     REQUIRE(errors_of(reports) == "");
///
/// The test program stays single-threaded; only the children have threads. A job can't hang: its
/// processes are killed by pid at its time limit, and they die with the test program.
namespace tutti::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Factor for time limits: above 1 if many jobs share the machine (CI=true) or under a sanitizer.
[[nodiscard]] int time_factor();

/// An error that a rank threw.
struct Failure {
  ErrorCode code{};
  std::string sentence;
  std::vector<int> failed_ranks;
  bool speaks = false;
  std::string operation;
};

/// Result of one rank.
struct Report {
  bool finished = false;           ///< the body returned or threw
  std::string text;                ///< what the body returned
  std::optional<Failure> failure;  ///< tutti::Error from the body
  std::string other_error;         ///< text of any other exception, usually a failed expect()
  bool hung = false;               ///< killed at the job's time limit
  int status = 0;                  ///< from waitpid()
  Clock::time_point ended;         ///< time when the body returned or threw
  Clock::duration destruction{};   ///< duration of the communicators' destruction
};

/// Memory that the parent and all ranks share. Defined in fork_board.hpp.
struct Board;

/// A bootstrap over shared memory that exists since before the fork.
class ForkBootstrap final : public Bootstrap {
 public:
  ForkBootstrap(Board& board, int rank) : board_(board), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override;
  [[nodiscard]] std::string source() const override { return "fork"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline deadline) override;
  Bytes broadcast(const Bytes& from_root, int root, Deadline deadline) override;
  void barrier(Deadline deadline) override;

  /// Called before and after each exchange with its number: 1 the secret, 2 the peer info, 3 the
  /// barrier.
  std::function<void(int number)> before;
  std::function<void(int number)> after;
  /// Content of the latest broadcast.
  [[nodiscard]] const Bytes& latest_broadcast() const { return latest_broadcast_; }

 private:
  std::vector<Bytes> exchange(const Bytes& mine, Deadline deadline);
  Board& board_;
  int rank_;
  std::uint64_t round_ = 0;
  Bytes latest_broadcast_;
};

/// A rank, in its own process.
class Rank {
 public:
  Rank(Board& board, int rank) : board_(board), bootstrap_(board, rank) {}

  [[nodiscard]] int rank() const { return bootstrap_.rank(); }
  [[nodiscard]] int size() const { return bootstrap_.size(); }
  [[nodiscard]] ForkBootstrap& bootstrap() { return bootstrap_; }

  /// Creates a communicator. All are destroyed after the body, and the time of this is measured.
  Communicator& communicator(const Options& options = {});
  void destroy_communicators() { communicators_.clear(); }

  /// Increments the number of steps that the parent sees.
  void mark();
  /// Stores the current time for the parent.
  void stamp();
  /// Stores a text for the parent.
  void say(const std::string& text);
  /// True once the parent has called Job::release().
  [[nodiscard]] bool is_released() const;
  void wait_for_release() const;

 private:
  Board& board_;
  ForkBootstrap bootstrap_;
  std::list<Communicator> communicators_;
};

using Body = std::function<std::string(Rank&)>;

/// An assertion for bodies, where Catch is not available: throws `sentence` if `holds` is false.
void expect(bool holds, const std::string& sentence);

/// A running job.
class Job {
 public:
  Job(int size, const Body& body);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Kills the remaining processes.
  ~Job();

  [[nodiscard]] int size() const { return static_cast<int>(processes_.size()); }
  [[nodiscard]] pid_t pid(int rank) const;
  [[nodiscard]] std::uint64_t marks(int rank) const;
  /// Blocks until the rank has made this number of steps. Throws if it ends before, or after
  /// `limit`.
  void await_marks(int rank, std::uint64_t marks, Clock::duration limit = 20s);
  void await_marks_of_all(std::uint64_t marks, Clock::duration limit = 20s);
  /// Blocks until the rank's process has ended. Throws after `limit`.
  void await_end(int rank, Clock::duration limit = 20s);
  [[nodiscard]] Clock::time_point stamped(int rank) const;
  [[nodiscard]] std::string said(int rank) const;
  void release();
  /// Sends a signal. Returns the time of sending.
  Clock::time_point signal(int rank, int number) const;
  /// Waits for all ranks. Kills the rest after `limit` and reports them as hung.
  std::vector<Report> finish(Clock::duration limit = 30s);

 private:
  struct Process {
    pid_t pid = -1;
    bool over = false;
    bool hung = false;
    int status = 0;
  };
  void reap();
  void kill_rest();

  std::unique_ptr<Board, void (*)(Board*)> board_;
  std::vector<Process> processes_;
};

/// Starts a job and waits for its end.
std::vector<Report> run_ranks(int size, const Body& body, Clock::duration limit = 30s);

/// The errors of a job of which every rank should have returned. Empty if there are none.
[[nodiscard]] std::string errors_of(const std::vector<Report>& reports);
/// All reports, for the message of a failed check.
[[nodiscard]] std::string describe(const std::vector<Report>& reports);
[[nodiscard]] double seconds(Clock::duration time);

}  // namespace tutti::test
