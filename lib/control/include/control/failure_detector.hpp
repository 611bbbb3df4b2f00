#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/descriptor.hpp"
#include "control/failure_report.hpp"
#include "rendezvous/peers.hpp"
#include "tutti/deadline.hpp"

namespace tutti::control {

/// Which ranks are alive, and the failure that all ranks agree on. Any thread may query it and
/// report to it. The control thread runs the agreement and enters its results here.
class FailureDetector {
 public:
  /// Requests to the control thread. They may be called from any thread and return immediately.
  struct Requests {
    std::function<void(const FailureReport&)> report;  ///< send it to all ranks, for agreement
    std::function<void(const FailureReport&)> decide;  ///< decide on it without the other ranks
  };

  /// `peers` and `wakeup` must outlive it. `on_failure` is called with the sentence of the agreed
  /// failure, by the thread that enters the failure.
  FailureDetector(const rendezvous::Peers& peers, std::shared_ptr<RunningClock> clock,
                  const Wakeup& wakeup, Requests requests,
                  std::function<void(const std::string&)> on_failure);
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;

  [[nodiscard]] const rendezvous::Peers& peers() const { return peers_; }
  /// The clock of set-up, advanced by the control thread; deadlines of any thread use it.
  [[nodiscard]] const std::shared_ptr<RunningClock>& clock() const { return clock_; }
  /// A deadline `timeout` from now. Time for which this process is stopped does not count.
  [[nodiscard]] Deadline deadline(std::chrono::nanoseconds timeout) const {
    return Deadline::after(timeout, clock_);
  }

  /// True once there is an agreed failure. Costs one load.
  [[nodiscard]] bool job_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// The agreed failure as the error that calls throw. Requires job_failed().
  [[nodiscard]] Error agreed_error() const;
  /// The error that calls throw if this is agreed on.
  [[nodiscard]] Error error_of(const FailureReport& report) const;
  /// The agreed failure, if any.
  [[nodiscard]] std::optional<FailureReport> agreed_failure() const;
  /// Ranks that died since set-up, agreed on or not, optionally with ranks that left; up to 50 ms
  /// old.
  [[nodiscard]] std::map<int, LossReason> lost_ranks(bool with_departed) const;
  [[nodiscard]] bool has_departed(int rank) const;
  [[nodiscard]] std::size_t departed_count() const;

  /// Sends a report to the lowest living rank, for agreement.
  void report(const FailureReport& report);
  /// Calls report(), waits up to `limit` for the agreed failure and returns it as an error. Without
  /// an agreement this rank decides on `report` alone, after another `limit` even if its control
  /// thread does not answer.
  [[nodiscard]] Error report_and_wait(const FailureReport& report,
                                      std::chrono::milliseconds limit = agreement_limit);
  /// Agreement takes some tens of milliseconds if the ranks respond.
  static constexpr std::chrono::milliseconds agreement_limit{500};

  // For the control thread:
  /// Enters the agreed failure. An earlier one stays, so that later calls throw the same error.
  void on_decision(const FailureReport& report);
  void on_departure(int rank);
  void set_lost(const std::map<int, LossReason>& lost);

 private:
  const rendezvous::Peers& peers_;
  std::shared_ptr<RunningClock> clock_;
  const Wakeup& wakeup_;
  Requests requests_;
  std::function<void(const std::string&)> on_failure_;
  std::atomic<bool> failed_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<FailureReport> agreed_;
  std::map<int, LossReason> lost_;
  std::set<int> departed_;
};

}  // namespace tutti::control
