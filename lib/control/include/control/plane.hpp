#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/quiet_thread.hpp"
#include "control/call_histories.hpp"
#include "control/connector.hpp"
#include "control/failure_detector.hpp"
#include "control/link_setup.hpp"
#include "control/status_exchange.hpp"
#include "rendezvous/peers.hpp"
#include "tutti/deadline.hpp"

namespace tutti::control {

class ControlThread;
class Recorder;

/// The control plane of a job: owns the control thread, which is blocked in epoll with signals
/// masked, and what it shares with other threads. Users get references to the parts that they use;
/// only the owner of the job has the plane itself.
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

  [[nodiscard]] const rendezvous::Peers& peers() const { return peers_; }
  [[nodiscard]] FailureDetector& detector() { return detector_; }
  [[nodiscard]] CallHistories& histories() { return histories_; }
  [[nodiscard]] StatusExchange& statuses() { return statuses_; }
  [[nodiscard]] Connector& connector() { return connector_; }
  /// Readable when there is an agreed failure, a departure or a data connection.
  [[nodiscard]] const Wakeup& wakeup() const { return wakeup_; }

  /// Blocks until all control links are established. Throws Error{timeout} that names the missing
  /// ranks, or the agreed failure.
  void wait_until_linked(const Deadline& deadline);
  /// Like wait_until_linked(), but returns false if neither links nor a failure exist after
  /// `limit`.
  bool is_linked_within(std::chrono::nanoseconds limit) { return link_setup_.wait_for(limit); }
  /// For a rank that cannot start a thread: reports `report` from the caller's own thread and
  /// returns the agreed failure as an error; `report` itself if there is no agreement by the
  /// deadline.
  [[nodiscard]] Error end_without_thread(const FailureReport& report, Deadline deadline);
  /// The PeerExchange for a plane of the ranks without `gone`: the same listeners, which this plane
  /// gives up, and the next epoch, so that links of the old job are rejected. Throws Error{system}.
  [[nodiscard]] rendezvous::PeerExchange exchange_of_survivors(const std::set<int>& gone);
  /// All survivors have moved to another job: the destructor does not wait for them.
  void retire() { is_retired_ = true; }

 private:
  [[noreturn]] void fail_setup(const LinkSetup::Progress& progress, bool is_late) const;

  rendezvous::Peers peers_;
  Wakeup wakeup_;
  FailureDetector detector_;
  CallHistories histories_;
  Connector connector_;
  StatusExchange statuses_;
  LinkSetup link_setup_;
  std::unique_ptr<Recorder> recorder_;

  std::mutex mutex_;
  std::condition_variable left_;
  bool all_left_ = false;
  bool is_retired_ = false;  ///< set by the owner of the job

  std::unique_ptr<ControlThread> control_thread_;
  std::unique_ptr<ReservedThread> thread_;
};

}  // namespace tutti::control
