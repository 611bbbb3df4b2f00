#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/reactor.hpp"
#include "control/consensus.hpp"
#include "control/control_link.hpp"
#include "control/message.hpp"
#include "control/plane.hpp"
#include "control/router.hpp"
#include "rendezvous/acceptor.hpp"
#include "rendezvous/dialer.hpp"
#include "rendezvous/refusal_probe.hpp"

namespace tutti::control {

/// The control thread. Connects Router and Consensus, which do no I/O, to sockets, pidfds and
/// timers.
class Plane::Worker {
 public:
  Worker(Plane& plane, rendezvous::PeerExchange exchanged, const Environment& environment,
         Log& log);

  /// The body of the thread.
  void run(Deadline setup);
  /// Runs `action` in the control thread.
  void post(std::function<void()> action) { reactor_.post(std::move(action)); }
  void stop() { reactor_.stop(); }

  [[nodiscard]] const rendezvous::Peers& peers() const { return peers_; }

  // To be called in the control thread:
  void report_failure(const FailureReport& report) { consensus_.report_failure(report); }
  void decide_unilaterally(const FailureReport& report) { consensus_.decide_unilaterally(report); }
  void send_calls_to(int peer, const CallHistory& history);
  void ask_statuses(std::uint32_t communicator);
  void dial_data(int peer, Deadline deadline);
  void say_goodbye();
  /// Ends run() once there is an agreed failure and it was sent to the others, or at the deadline.
  void stop_once_decided(Deadline deadline);
  [[nodiscard]] std::vector<rendezvous::Listener> take_listeners() {
    return acceptor_.take_listeners();
  }
  /// Constant.
  [[nodiscard]] const rendezvous::Membership& membership() const { return self_; }

 private:
  [[nodiscard]] Consensus::Outbox make_outbox();
  [[nodiscard]] bool is_past_setup() const;
  void start_response_timer();
  void link_neighbours(Deadline setup);
  void probe_unlinked();
  void on_connection(rendezvous::Connection connection);
  void add_link(rendezvous::Connection connection);
  void on_link_closed(int peer, int number);
  void on_link_corrupted(int peer);
  void watch_processes();
  void on_process_ended(int peer);
  void on_message(const ControlMessage& message);
  void on_calls(int origin, CallsMessage decoded);
  void on_goodbye(int origin);
  void on_status(int origin, const StatusMessage& decoded);
  void send_status_to(int origin, std::uint32_t communicator);
  void decided(const FailureReport& report);
  void notify_neighbours(const CallHistory& history);
  void compare_with(int peer, std::uint32_t communicator);
  void tick();
  void report_own_failure(const std::string& reason);
  void on_rank_lost(int peer, LossReason reason);
  void check_all_left();

  Plane& plane_;
  Log& log_;
  std::chrono::seconds keepalive_;
  rendezvous::Peers peers_;
  rendezvous::Membership self_;
  Reactor reactor_;
  rendezvous::Acceptor acceptor_;
  rendezvous::Dialer dialer_;
  Router router_;
  Consensus consensus_;
  std::vector<int> neighbours_;
  std::map<int, std::unique_ptr<ControlLink>> links_;
  std::map<int, rendezvous::RefusalProbe> probes_;  ///< of neighbours without a link
  std::map<int, Descriptor> processes_;             ///< pidfds of this host's other ranks
  /// The latest calls of a peer in a communicator, as it sent them.
  std::map<std::pair<int, std::uint32_t>, std::vector<PastCall>> peer_calls_;
  std::set<int> departed_;
  std::map<std::uint32_t, std::uint64_t> calls_sent_for_;  ///< communicator → sequence
  bool leaving_ = false;
  unsigned records_written_ = 0;
};

}  // namespace tutti::control
