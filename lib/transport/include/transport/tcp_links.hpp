#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/descriptor.hpp"
#include "base/fault_injection.hpp"
#include "base/wait_policy.hpp"
#include "control/connector.hpp"
#include "control/failure_detector.hpp"
#include "transport/incoming_half.hpp"
#include "transport/links.hpp"
#include "transport/outgoing_half.hpp"
#include "tutti/deadline.hpp"

namespace tutti::transport {

/// Links over TCP or, inside a host, over shared rings; connected on first use. A link has two
/// one-way halves. Between hosts they share a connection, whichever rank opened it, so that
/// acknowledgements travel with data. Inside a host each half has its own, opened by the sender:
/// the doorbell of its rings.
class TcpLinks final : public Links {
 public:
  struct Settings {
    std::size_t eager_bytes = 0;       ///< limit of eager messages inside a host
    std::size_t far_eager_bytes = 0;   ///< limit of those between hosts
    std::string congestion;            ///< TCP congestion control; empty: the system's
    InjectedFaults* faults = nullptr;  ///< null: none
    /// The host's shared segment; null: links inside the host use sockets.
    std::shared_ptr<SharedSegment> segment;
    WaitPolicy waits{false};
    std::chrono::nanoseconds connect_timeout{};
  };

  /// The references must outlive it; `wakeup` is that of `detector` and `connector`.
  TcpLinks(const control::FailureDetector& detector, control::Connector& connector,
           const Wakeup& wakeup, CallInspector& inspector, Settings settings);
  /// Waits up to 500 ms for the peers' hosts to acknowledge all data.
  ~TcpLinks() override;

  void post(SendRequest& request) override;
  void post(RecvRequest& request) override;
  bool try_send(int to, const CallContext& call, std::span<const std::byte> bytes) override;
  Receipt try_receive(int from, const CallContext& call, std::span<std::byte> bytes) override;
  bool has_arrived(int from, const StreamKey& key) override;
  void finish_collective(const StreamKey& key) override;
  void finish_sent(const StreamKey& key, int to) override;
  void finish_received(const StreamKey& key, int from) override;
  void abandon() override;
  void allow_spinning(bool allowed) override { may_spin_ = allowed; }
  void skip_spinning() override { wait_.skip_polls(); }
  bool progress(std::chrono::nanoseconds limit) override;
  [[nodiscard]] LinkState state(int peer, bool receiving) const override;

 private:
  [[nodiscard]] std::size_t eager_bytes(int peer) const;
  OutgoingHalf& outgoing(int peer);
  /// The same, and requests a connection on first use.
  OutgoingHalf& dialed(int peer);
  IncomingHalf& incoming(int peer);
  void connect_both(rendezvous::SecureSocket socket, int peer);
  [[nodiscard]] bool shares_connection(int peer) const;
  void take_connections();
  void drop_link_if_due();
  [[nodiscard]] bool has_links_to_drop() const;
  void watch(int fd, int peer, bool is_outgoing);
  template <class Half>
  void update_watch(Half& half, int peer, bool is_outgoing);
  void update_shared_watch(int peer);
  void set_watch(int fd, int peer, bool is_outgoing, std::uint32_t wanted);
  [[nodiscard]] std::unique_ptr<LinkMemory> link_memory(int from, int to) const;
  LinkEndpoint endpoint_to(rendezvous::SecureSocket socket, int peer) const;
  LinkEndpoint endpoint_from(rendezvous::SecureSocket socket, int peer) const;
  [[nodiscard]] bool shares_memory_with(int peer) const;
  template <class Half>
  bool serve(Half& half, int peer, bool is_outgoing);
  bool serve_shared(int peer);
  bool poll_rings();
  bool wait_for_events(std::chrono::nanoseconds limit);
  /// Result of a wait for events: timeout, events without data, or data.
  enum class Events : std::uint8_t { timeout, no_data, data };
  Events poll_sockets(std::chrono::nanoseconds limit);

  const control::FailureDetector& detector_;
  control::Connector& connector_;
  const Wakeup& wakeup_;
  CallInspector& inspector_;
  Settings settings_;
  Descriptor epoll_;
  std::map<int, OutgoingHalf> outgoing_;
  std::map<int, IncomingHalf> incoming_;
  std::map<std::pair<int, bool>, std::uint32_t> watched_;  ///< (peer, is_outgoing) → epoll events
  // Halves that have rings, by peer.
  std::vector<std::pair<int, OutgoingHalf*>> ringed_outgoing_;
  std::vector<std::pair<int, IncomingHalf*>> ringed_incoming_;
  std::uint32_t turns_ = 0;
  Wait wait_;
  bool may_spin_ = true;
  std::set<int> links_to_drop_;
};

}  // namespace tutti::transport
