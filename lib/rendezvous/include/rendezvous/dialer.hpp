#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/reactor.hpp"
#include "rendezvous/connection.hpp"
#include "rendezvous/interfaces.hpp"
#include "tutti/deadline.hpp"

namespace tutti::rendezvous {

/// Connects to peers and authenticates this rank. Candidate addresses are tried in turn until the
/// deadline, because a host may be slow, an interface unreachable, or another program may own an
/// address. The first round over all candidates takes at most 2 s.
class Dialer {
 public:
  /// Called once per dial, with the connection or with a sentence that gives the failure at each
  /// address.
  using OnDone = std::function<void(std::optional<Connection>, const std::string& failure)>;

  /// `sources`: local addresses for connections to other hosts; empty: the kernel chooses.
  Dialer(Reactor& reactor, const Membership& self, std::vector<Interface> sources = {});
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;
  ~Dialer();

  [[nodiscard]] const std::vector<Interface>& sources() const { return sources_; }

  void dial(int peer, LinkKind kind, std::vector<SocketAddress> candidates, Deadline deadline,
            OnDone on_done);
  /// Ends the dial to `peer`, if there is one, without a call of its on_done.
  void cancel(int peer, LinkKind kind);
  /// The same, unless the peer may have accepted the connection already. Returns true if a dial was
  /// ended.
  bool cancel_unaccepted(int peer, LinkKind kind);

 private:
  enum class State : std::uint8_t { idle, connecting, awaiting_hello, awaiting_answer, encrypting };
  struct Dial {
    int peer;
    LinkKind kind;
    std::vector<SocketAddress> candidates;
    Deadline deadline;
    OnDone on_done;
    std::size_t candidate = 0;
    int round = 0;
    std::chrono::microseconds pause{0};  ///< between the latest two rounds
    std::vector<std::string> failures;   ///< the latest failure of each candidate
    State state = State::idle;
    Descriptor socket;
    Reactor::TimerId timer = 0;
    Hello hello{};
    Proof proof{};
    Answer answer{};
    std::size_t received = 0;
    std::unique_ptr<Tls> tls;
  };
  using DialList = std::list<Dial>;
  [[nodiscard]] DialList::iterator find(int peer, LinkKind kind);

  void attempt(DialList::iterator dial);
  void drop_self_connection(DialList::iterator dial);
  [[nodiscard]] int reachability(const SocketAddress& address) const;
  void set_reachability(const SocketAddress& address, int answer);
  void on_ready(DialList::iterator dial);
  void on_connected(DialList::iterator dial);
  void on_hello(DialList::iterator dial);
  void on_answer(DialList::iterator dial);
  void handshake(DialList::iterator dial);
  void succeed(DialList::iterator dial);
  /// Returns 1 if `out` is full, 0 if more data is needed, -1 if the attempt has failed.
  int receive(DialList::iterator dial, std::span<std::byte> out);
  void set_timer(DialList::iterator dial, Reactor::Clock::duration delay, std::string reason);
  /// Fails the attempt at the deadline, for steps that must not be retried earlier.
  void set_last_timer(DialList::iterator dial, std::string reason);
  void fail_attempt(DialList::iterator dial, std::string reason);
  void finish(DialList::iterator dial, std::optional<Connection> connection);
  void disarm(Dial& dial);

  Reactor& reactor_;
  const Membership& self_;
  std::vector<Interface> sources_;
  /// By address without port: 1 if a peer has answered there, -1 if none has. Ranks of one host
  /// share addresses, so the result of one dial orders the candidates of the next.
  std::map<std::string, int> reachability_;
  DialList dials_;
};

}  // namespace tutti::rendezvous
