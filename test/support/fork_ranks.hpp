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

/// Runs the ranks of a job as plain child processes, without MPI, and brings back what became of
/// each.
///
///     auto reports = run_ranks(4, [](Rank& rank) -> std::string {
///       auto& communicator = rank.communicator();
///       ...
///       return "done";
///     });
///     REQUIRE(trouble(reports) == "");
///
/// The test program stays single-threaded: threads exist in the children only. Nothing here can
/// hang: each job has a limit, at which its processes are killed by pid; they also die with the
/// test program.
namespace tutti::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// How much longer than promised things may take where many jobs share a machine (CI=true), and 1
/// elsewhere.
[[nodiscard]] int patience();

/// What a rank threw, as the parent sees it.
struct Failure {
  ErrorCode code{};
  std::string sentence;
  std::vector<int> failed_ranks;
  bool speaks = false;
  std::string operation;
};

/// What became of one rank.
struct Report {
  bool finished = false;           ///< its body returned or threw
  std::string text;                ///< what the body returned
  std::optional<Failure> failure;  ///< the tutti::Error that the body threw
  std::string complaint;           ///< any other exception: mostly a failed expect()
  bool hung = false;               ///< it had to be killed at the job's limit
  int status = 0;                  ///< as waitpid() gives it
  Clock::time_point ended;         ///< when the body returned or threw
  Clock::duration destruction{};   ///< of its communicators
};

/// Memory that the parent and all ranks share; defined in fork_board.hpp.
struct Board;

/// A bootstrap over shared memory that was made before the fork.
class ForkBootstrap final : public Bootstrap {
 public:
  ForkBootstrap(Board& board, int rank) : board_(board), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override;
  [[nodiscard]] std::string source() const override { return "fork"; }
  std::vector<Bytes> all_gather(const Bytes& mine, Deadline deadline) override;
  Bytes broadcast(const Bytes& from_root, int root, Deadline deadline) override;
  void barrier(Deadline deadline) override;

  /// Called before and after each exchange with its number: 1 the secret, 2 the infos, 3 the
  /// barrier.
  std::function<void(int number)> before;
  std::function<void(int number)> after;
  /// What the latest broadcast carried.
  [[nodiscard]] const Bytes& latest_broadcast() const { return latest_broadcast_; }

 private:
  std::vector<Bytes> exchange(const Bytes& mine, Deadline deadline);
  Board& board_;
  int rank_;
  std::uint64_t round_ = 0;
  Bytes latest_broadcast_;
};

/// A rank as its own process sees it.
class Rank {
 public:
  Rank(Board& board, int rank) : board_(board), bootstrap_(board, rank) {}

  [[nodiscard]] int rank() const { return bootstrap_.rank(); }
  [[nodiscard]] int size() const { return bootstrap_.size(); }
  [[nodiscard]] ForkBootstrap& bootstrap() { return bootstrap_; }

  /// A new one each time. They are destroyed after the body, which is timed.
  Communicator& communicator(const Options& options = {});
  void destroy_communicators() { communicators_.clear(); }

  /// Reports one more finished step to the parent.
  void mark();
  /// Reports the current time to the parent.
  void stamp();
  /// Something for the parent to read.
  void say(const std::string& text);
  /// True once the parent has called Job::tell_go().
  [[nodiscard]] bool told_to_go() const;
  void wait_for_go() const;

 private:
  Board& board_;
  ForkBootstrap bootstrap_;
  std::list<Communicator> communicators_;
};

using Body = std::function<std::string(Rank&)>;

/// For bodies, which have no Catch: throws with this sentence where `holds` is false.
void expect(bool holds, const std::string& sentence);

/// A running job.
class Job {
 public:
  Job(int size, const Body& body);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Kills what still runs.
  ~Job();

  [[nodiscard]] int size() const { return static_cast<int>(processes_.size()); }
  [[nodiscard]] pid_t pid(int rank) const;
  [[nodiscard]] std::uint64_t marks(int rank) const;
  /// Returns when the rank has made so many steps. Throws where it ends before or takes too long.
  void await_marks(int rank, std::uint64_t marks, Clock::duration limit = 20s);
  void await_marks_of_all(std::uint64_t marks, Clock::duration limit = 20s);
  /// Returns when the rank's process has ended. Throws where it takes too long.
  void await_end(int rank, Clock::duration limit = 20s);
  [[nodiscard]] Clock::time_point stamped(int rank) const;
  [[nodiscard]] std::string said(int rank) const;
  void tell_go();
  /// Sends a signal; returns when that was.
  Clock::time_point signal(int rank, int number) const;
  /// Waits for all; after `limit` the rest is killed and reported as hung.
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

/// What went wrong in a job of which every rank should have returned; empty if nothing did.
[[nodiscard]] std::string trouble(const std::vector<Report>& reports);
/// All reports, for a test's message.
[[nodiscard]] std::string describe(const std::vector<Report>& reports);
[[nodiscard]] double seconds(Clock::duration time);

}  // namespace tutti::test
