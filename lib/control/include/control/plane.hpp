#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/quiet_thread.hpp"
#include "control/call_history.hpp"
#include "control/failure_report.hpp"
#include "control/status.hpp"
#include "rendezvous/connection.hpp"
#include "rendezvous/peers.hpp"
#include "tutti/deadline.hpp"

namespace tutti::control {

/// A data connection, or the reason why a requested one failed.
struct DataConnection {
  rendezvous::Connection connection;  ///< without a socket on failure
  bool dialed_here = false;
  std::string failure;
};

/// The control plane: failure detection, agreement, and each rank's activity. One thread, blocked
/// in epoll and with signals masked, plus this object as its interface for the caller's thread. It
/// also establishes all connections, including data connections, so that a computing rank still
/// answers.
class Plane {
 public:
  /// Establishes the control links in `thread`; without a thread only end_without_thread() may be
  /// called.
  Plane(rendezvous::PeerExchange exchanged, const Environment& environment, Log& log,
        Deadline setup, std::unique_ptr<ReservedThread> thread);
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;
  /// Leaves the job; waits until all other ranks have left too, at most half a second.
  ~Plane();

  /// Blocks until all control links are established. Throws Error{timeout} that names the missing
  /// ranks, or the agreed failure.
  void wait_until_linked(Deadline deadline);
  /// Like wait_until_linked(), but returns false if neither links nor a failure exist after
  /// `limit`.
  bool is_linked_within(std::chrono::nanoseconds limit);
  /// For a rank that cannot start a thread: reports `report` from the caller's own thread and
  /// returns the agreed failure as an error; `report` itself if there is no agreement by the
  /// deadline.
  [[nodiscard]] Error end_without_thread(const FailureReport& report, Deadline deadline);

  [[nodiscard]] const rendezvous::Peers& peers() const;
  /// The clock of set-up, advanced by the control thread; deadlines of any thread use it.
  [[nodiscard]] const std::shared_ptr<RunningClock>& clock() const { return clock_; }
  /// A deadline `timeout` from now. Time for which this process is stopped does not count.
  [[nodiscard]] Deadline deadline(std::chrono::nanoseconds timeout) const {
    return Deadline::after(timeout, clock_);
  }
  /// Starts recording the calls of a communicator, until close_history(). Calls of communicators
  /// without an open history are not compared.
  std::shared_ptr<CallHistory> open_history(Group group);
  void close_history(std::uint32_t communicator);
  /// Null if that communicator has no open history.
  [[nodiscard]] std::shared_ptr<CallHistory> history(std::uint32_t communicator) const;

  /// True once there is an agreed failure. Costs one load.
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// The agreed failure as the error that calls throw. Requires failed().
  [[nodiscard]] Error agreed_error() const;

  /// The agreed failure, if any.
  [[nodiscard]] std::optional<FailureReport> agreed_failure() const;
  /// Ranks that died since set-up, agreed on or not, optionally with ranks that left; up to 50 ms
  /// old.
  [[nodiscard]] std::map<int, LossReason> lost_ranks(bool with_departed) const;
  /// The PeerExchange for a plane of the ranks without `gone`: the same listeners, which this plane
  /// gives up, and the next epoch, so that links of the old job are rejected. Throws Error{system}.
  [[nodiscard]] rendezvous::PeerExchange exchange_of_survivors(const std::set<int>& gone);
  /// All survivors have moved to another job: the destructor does not wait for them.
  void retire();
  /// Writes the recorder's file if TUTTI_RECORD is set.
  void write_record(const std::string& reason) const;

  /// Sends a report to the lowest living rank, for agreement.
  void report(const FailureReport& report);
  /// Calls report(), waits up to `limit` for the agreed failure and returns it as an error; without
  /// an agreement, `report` itself.
  [[nodiscard]] Error report_and_wait(const FailureReport& report,
                                      std::chrono::milliseconds limit = agreement_limit);
  /// Agreement takes some tens of milliseconds if the ranks respond.
  static constexpr std::chrono::milliseconds agreement_limit{500};
  /// Sends this rank's latest calls in a communicator to `peer`, which reports a mismatch.
  void compare_calls_with(int peer, std::uint32_t communicator);

  [[nodiscard]] bool has_departed(int rank) const;
  /// Queries the activity of all other ranks, as seen from a communicator; ranks that do not answer
  /// within `limit` are missing.
  [[nodiscard]] std::map<int, Status> ask_statuses(std::uint32_t communicator,
                                                   std::chrono::milliseconds limit);
  /// Registry of the sockets by which this rank sends data.
  [[nodiscard]] DataSockets& data_sockets() { return data_sockets_; }

  /// Requests a data connection to `peer`; take_data_connections() returns it.
  void request_data_connection(int peer, Deadline deadline);
  [[nodiscard]] std::vector<DataConnection> take_data_connections();

  /// Readable when there is an agreed failure, a departure or a data connection.
  [[nodiscard]] int wakeup_fd() const { return wakeup_.fd(); }
  void clear_wakeup() const { wakeup_.clear(); }
  /// Makes wakeup_fd() readable, to wake the thread that waits for it.
  void wake() const { wakeup_.signal(); }

 private:
  class Worker;
  friend class Worker;

  [[nodiscard]] std::vector<std::shared_ptr<CallHistory>> histories() const;
  [[nodiscard]] Activity activity_seen_from(std::uint32_t communicator) const;

  template <class Holds>
  bool wait_for(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit, Holds holds);

  std::string record_folder_;
  Log& log_;
  std::shared_ptr<RunningClock> clock_;
  Wakeup wakeup_;
  std::atomic<bool> failed_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> unlinked_;  ///< neighbours without a control link
  std::string link_failure_;
  bool all_left_ = false;
  bool is_retired_ = false;
  std::map<int, LossReason> lost_;  ///< snapshot of the control thread's latest tick
  std::optional<FailureReport> agreed_;
  std::set<int> departed_;
  std::mutex status_query_mutex_;  ///< one query at a time: two calls may be late at once
  std::map<int, Status> statuses_;
  std::uint32_t statuses_of_ = 0;  ///< communicator of statuses_
  DataSockets data_sockets_;
  std::map<std::uint32_t, std::shared_ptr<CallHistory>> histories_;
  std::vector<DataConnection> data_connections_;

  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ReservedThread> thread_;
};

/// The report that two ranks' calls number `sequence` in the group's communicator do not match.
[[nodiscard]] FailureReport mismatch(const rendezvous::Peers& peers, const Group& group,
                                     std::uint64_t sequence, int rank,
                                     const std::optional<CallSignature>& call, int other,
                                     const std::optional<CallSignature>& other_call);

/// The sentence for an agreed failure of lost ranks.
[[nodiscard]] std::string describe_losses(const rendezvous::Peers& peers,
                                          const std::map<int, LossReason>& lost);

}  // namespace tutti::control
