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

/// A data connection that is ready, or the reason why one that was asked for could not be made.
struct DataConnection {
  rendezvous::Connection connection;  ///< without a socket where it failed
  bool dialed_here = false;
  std::string failure;
};

/// Who is alive, and what is each doing? One thread that sleeps until something happens, with
/// signals blocked, and this object through which the caller's thread talks to it. It also makes
/// all connections, those for data included, so that a rank which computes still answers.
class Plane {
 public:
  /// Makes the control links in `thread`; without one, only end_without_thread() is of use.
  Plane(rendezvous::PeerExchange exchanged, const Environment& environment, Log& log,
        Deadline setup, std::unique_ptr<ReservedThread> thread);
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;
  /// Says goodbye to all; returns when all others have said so too, after half a second at the
  /// latest.
  ~Plane();

  /// Returns when all control links stand. Throws Error{timeout} that names whom it waits for, or
  /// the verdict.
  void wait_until_linked(Deadline deadline);
  /// As wait_until_linked(), but returns false where there is nothing to say after `limit`.
  bool is_linked_within(std::chrono::nanoseconds limit);
  /// For a rank that can start no thread: brings `report` before the others from the caller's own
  /// thread, and returns the verdict as an error; without one, the report itself at the deadline.
  [[nodiscard]] Error end_without_thread(const FailureReport& report, Deadline deadline);

  [[nodiscard]] const rendezvous::Peers& peers() const;
  /// The set-up's, read by the control thread, so that any thread may wait for a time of it.
  [[nodiscard]] const std::shared_ptr<RunningClock>& clock() const { return clock_; }
  /// `timeout` from now. Time in which this process was stopped is no other rank's lateness.
  [[nodiscard]] Deadline deadline(std::chrono::nanoseconds timeout) const {
    return Deadline::after(timeout, clock_);
  }
  /// Starts to remember the calls of a communicator; close_history() ends it. Calls of
  /// communicators that are not open are not compared.
  std::shared_ptr<CallHistory> open_history(Group group);
  void close_history(std::uint32_t communicator);
  /// Null where that communicator is not open.
  [[nodiscard]] std::shared_ptr<CallHistory> history(std::uint32_t communicator) const;

  /// True once there is a verdict. Costs one load.
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// The verdict as the error that a call throws. Only where failed().
  [[nodiscard]] Error agreed_error() const;

  /// The verdict, if there is one.
  [[nodiscard]] std::optional<FailureReport> agreed_failure() const;
  /// Who has died since set-up, agreed on or not, and on wish who has said goodbye; some 50 ms old.
  [[nodiscard]] std::map<int, LossReason> gone(bool with_departed) const;
  /// All that a plane of the ranks without `gone` needs: the same doors, which this plane closes,
  /// and the next epoch, so that the old job's links are refused. Throws Error{system}.
  [[nodiscard]] rendezvous::PeerExchange exchange_of_survivors(const std::set<int>& gone);
  /// All survivors are in another job: nobody waits for this plane's goodbye any more.
  void retire();
  /// Writes the recorder's file where TUTTI_RECORD asks for it.
  void write_record(const std::string& reason) const;

  /// Brings a report before the lowest living rank.
  void report(const FailureReport& report);
  /// report(), then waits for the verdict, `limit` at most, and returns it as an error; without
  /// one, the report itself.
  [[nodiscard]] Error report_and_wait(const FailureReport& report,
                                      std::chrono::milliseconds limit = agreement_limit);
  /// A verdict takes some tens of milliseconds, where the ranks that agree on it answer.
  static constexpr std::chrono::milliseconds agreement_limit{500};
  /// Sends the own latest calls in a communicator to `peer`, which will report where they differ
  /// from its own.
  void compare_calls_with(int peer, std::uint32_t communicator);

  [[nodiscard]] bool has_departed(int rank) const;
  /// What every other rank is doing, by its own word and as seen from that communicator; ranks that
  /// do not answer within `limit` are missing.
  [[nodiscard]] std::map<int, Status> ask_statuses(std::uint32_t communicator,
                                                   std::chrono::milliseconds limit);
  /// Where the sockets are noted by which this rank sends data.
  [[nodiscard]] DataSockets& data_sockets() { return data_sockets_; }

  /// Asks for a data connection to `peer`; it arrives at take_data_connections().
  void request_data_connection(int peer, Deadline deadline);
  [[nodiscard]] std::vector<DataConnection> take_data_connections();

  /// Readable when there is a verdict, a departure or a data connection to take.
  [[nodiscard]] int wakeup_fd() const { return wakeup_.fd(); }
  void clear_wakeup() const { wakeup_.clear(); }
  /// Makes wakeup_fd() readable: whoever waits for it is to look around.
  void poke() const { wakeup_.signal(); }

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
  std::set<int> unlinked_;  ///< neighbours without a control link yet
  std::string link_failure_;
  bool all_gone_ = false;
  bool is_retired_ = false;
  std::map<int, LossReason> lost_;  ///< as the control thread knew it at its latest tick
  std::optional<FailureReport> agreed_;
  std::set<int> departed_;
  std::mutex asking_;  ///< one question at a time: two calls may be late at once
  std::map<int, Status> statuses_;
  std::uint32_t statuses_of_ = 0;  ///< the communicator that they are seen from
  DataSockets data_sockets_;
  std::map<std::uint32_t, std::shared_ptr<CallHistory>> histories_;
  std::vector<DataConnection> data_connections_;

  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ReservedThread> thread_;
};

/// The report that two ranks' calls number `sequence` in the group's communicator differ.
[[nodiscard]] FailureReport mismatch(const rendezvous::Peers& peers, const Group& group,
                                     std::uint64_t sequence, int rank,
                                     const std::optional<CallSignature>& call, int other,
                                     const std::optional<CallSignature>& other_call);

/// The sentence of a verdict of deaths.
[[nodiscard]] std::string describe_losses(const rendezvous::Peers& peers,
                                          const std::map<int, LossReason>& lost);

}  // namespace tutti::control
