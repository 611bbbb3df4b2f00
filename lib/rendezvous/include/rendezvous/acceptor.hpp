#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/log.hpp"
#include "base/reactor.hpp"
#include "rendezvous/connection.hpp"
#include "rendezvous/listener.hpp"

namespace tutti::rendezvous {

/// Accepts connections at this rank's listening sockets and authenticates them. Unauthenticated
/// connections hold a bounded number of descriptors for a bounded time and are dropped without an
/// answer.
class Acceptor {
 public:
  static constexpr std::size_t max_pending = 64;  ///< beyond that the oldest is dropped
  static constexpr std::chrono::seconds handshake_timeout{2};

  /// `expects(from, kind)` returns whether rank `from` may open a link of that kind.
  Acceptor(Reactor& reactor, const Membership& self, std::vector<Listener> listeners, Log& log,
           std::function<bool(int from, LinkKind kind)> expects,
           std::function<void(Connection)> on_connection);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();

  /// True if rank `from` has a link of that kind, or is encrypting one.
  [[nodiscard]] bool has_link(int from, LinkKind kind) const {
    return linked_.contains({from, kind});
  }
  /// Stops accepting and returns the sockets, still listening. Connections that are not yet
  /// authenticated are dropped at their timeout.
  [[nodiscard]] std::vector<Listener> take_listeners();

 private:
  struct Pending {
    Descriptor socket;
    Hello hello{};
    Proof proof{};
    std::size_t received = 0;
    Reactor::TimerId timer = 0;
    AuthenticatedPeer authenticated;  ///< valid once the proof was accepted
    std::unique_ptr<Tls> tls;         ///< likewise, if links are encrypted
  };
  using PendingList = std::list<Pending>;

  void on_listener_ready(int listener);
  void send_hello(Descriptor socket);
  void on_pending_ready(PendingList::iterator pending);
  void authenticate(PendingList::iterator pending);
  void encrypt(PendingList::iterator pending);
  void handshake(PendingList::iterator pending);
  void finish(PendingList::iterator pending);
  void drop(PendingList::iterator pending, std::string_view reason);
  void pause(int listener);

  Reactor& reactor_;
  const Membership& self_;
  std::vector<Listener> listeners_;
  Log& log_;
  std::function<bool(int, LinkKind)> expects_;
  std::function<void(Connection)> on_connection_;
  PendingList pending_;
  PendingList encrypting_;  ///< authenticated, TLS handshake in progress
  std::set<std::pair<int, LinkKind>> linked_;
  std::set<Reactor::TimerId> pauses_;
  Reactor::Clock::time_point next_log_line_{};
};

}  // namespace tutti::rendezvous
