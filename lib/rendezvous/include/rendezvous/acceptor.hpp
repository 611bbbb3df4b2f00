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

/// Answers at this rank's listening sockets. Strangers cost a bounded number of descriptors for a
/// bounded time, and are dropped without an answer.
class Acceptor {
 public:
  static constexpr std::size_t max_pending = 64;  ///< the oldest is dropped for a newer one
  static constexpr std::chrono::seconds patience{2};

  /// `expects(from, kind)`: whether that rank may dial such a link at all.
  Acceptor(Reactor& reactor, const Membership& self, std::vector<Listener> listeners, Log& log,
           std::function<bool(int from, LinkKind kind)> expects,
           std::function<void(Connection)> on_connection);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();

  /// Closes the doors here and hands them on, still listening. Connections that have not proven
  /// themselves yet are dropped when their time is over.
  [[nodiscard]] std::vector<Listener> take_listeners();

 private:
  struct Pending {
    Descriptor socket;
    Hello hello{};
    Proof proof{};
    std::size_t received = 0;
    Reactor::TimerId timer = 0;
    Introduced introduced;     ///< once it has proven itself
    std::unique_ptr<Tls> tls;  ///< the same, where links are encrypted
  };
  using PendingList = std::list<Pending>;

  void on_listener_ready(int listener);
  void greet(Descriptor socket);
  void on_pending_ready(PendingList::iterator pending);
  void check(PendingList::iterator pending);
  void encrypt(PendingList::iterator pending);
  void shake_hands(PendingList::iterator pending);
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
  PendingList encrypting_;  ///< members, who shake hands a second time, for TLS
  std::set<std::pair<int, LinkKind>> known_;
  std::set<Reactor::TimerId> pauses_;
  Reactor::Clock::time_point next_log_line_{};
};

}  // namespace tutti::rendezvous
