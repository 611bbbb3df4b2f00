#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/reactor.hpp"
#include "control/call_comparison.hpp"
#include "control/call_histories.hpp"
#include "control/connector.hpp"
#include "control/consensus.hpp"
#include "control/control_link.hpp"
#include "control/failure_detector.hpp"
#include "control/link_setup.hpp"
#include "control/message.hpp"
#include "control/router.hpp"
#include "control/status_exchange.hpp"
#include "record.hpp"
#include "rendezvous/acceptor.hpp"
#include "rendezvous/dialer.hpp"
#include "rendezvous/refusal_probe.hpp"

namespace tutti::control {

/// The control thread. Connects Router, Consensus and CallComparison, which do no I/O, to sockets,
/// pidfds and timers, and enters their results where other threads find them.
class ControlThread {
 public:
  /// What it shares with the other threads of this process.
  struct Shared {
    FailureDetector& detector;
    const CallHistories& histories;
    StatusExchange& statuses;
    Connector& connector;
    LinkSetup& link_setup;
    Recorder& recorder;
    std::function<void()> on_all_left;  ///< after say_goodbye(): all other ranks have left too
  };

  /// `exchanged` without its peers, which `shared` has.
  ControlThread(Shared shared, rendezvous::PeerExchange&& exchanged, const Environment& environment,
                Log& log);

  /// The body of the thread.
  void run(Deadline setup);
  /// Runs `action` in the control thread.
  void post(std::function<void()> action) { reactor_.post(std::move(action)); }
  void stop() { reactor_.stop(); }

  // To be called in the control thread:
  void report_failure(const FailureReport& report) { consensus_.report_failure(report); }
  void decide_unilaterally(const FailureReport& report) { consensus_.decide_unilaterally(report); }
  void send_calls_to(int peer, std::uint32_t communicator) {
    comparison_.send_latest_to(peer, communicator);
  }
  void send_status_request(std::uint32_t communicator);
  /// Ranks of different hosts share one data connection: nothing happens if there is one already.
  void dial_data(int peer, Deadline deadline);
  void say_goodbye();
  /// Ends run() once there is an agreed failure and it was sent to the others, or at the deadline.
  void stop_once_decided(Deadline deadline);
  [[nodiscard]] std::vector<rendezvous::Listener> take_listeners() {
    return acceptor_.take_listeners();
  }

  // Constant:
  [[nodiscard]] const rendezvous::Membership& membership() const { return self_; }
  [[nodiscard]] const std::vector<rendezvous::Interface>& sources() const {
    return dialer_.sources();
  }

 private:
  [[nodiscard]] Consensus::Outbox make_outbox();
  [[nodiscard]] bool is_past_setup() const;
  void start_response_timer();
  void link_neighbours(Deadline setup);
  void probe_unlinked();
  void on_connection(rendezvous::Connection connection);
  [[nodiscard]] bool accepts_data_from(int peer);
  void add_link(rendezvous::Connection connection);
  void on_link_closed(int peer, int number);
  void on_link_corrupted(int peer);
  void watch_processes();
  void on_process_ended(int peer);
  void on_message(const ControlMessage& message);
  void on_goodbye(int origin);
  void send_status_to(int origin, std::uint32_t communicator);
  void decided(const FailureReport& report);
  void tick();
  void report_own_failure(const std::string& reason);
  [[nodiscard]] bool has_told_neighbours() const;
  void on_rank_lost(int peer, LossReason reason);
  void check_all_left();

  Shared shared_;
  const rendezvous::Peers& peers_;
  std::chrono::seconds keepalive_;
  rendezvous::Membership self_;
  Reactor reactor_;
  rendezvous::Acceptor acceptor_;
  rendezvous::Dialer dialer_;
  Router router_;
  Consensus consensus_;
  CallComparison comparison_;
  std::vector<int> neighbours_;
  std::map<int, std::unique_ptr<ControlLink>> links_;
  std::map<int, rendezvous::RefusalProbe> probes_;  ///< of neighbours without a link
  std::map<int, Descriptor> processes_;             ///< pidfds of this host's other ranks
  std::set<int> data_dialed_;  ///< peers to which this rank dials, or has dialed, a data connection
  std::set<int> departed_;
  bool leaving_ = false;
};

}  // namespace tutti::control
