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

/// Connects to peers and proves itself to them. Each candidate address is tried in turn, again and
/// again until the deadline: a host may be slow, an interface unreachable, and behind an address
/// may be somebody else. However many there are, the first round takes no more than 2 s.
class Dialer {
 public:
  /// Called once a dial, with the connection or with a sentence that says what happened at each
  /// address.
  using OnDone = std::function<void(std::optional<Connection>, const std::string& failure)>;

  /// `sources`: connections to other hosts leave by one of these addresses; empty: as the kernel
  /// routes.
  Dialer(Reactor& reactor, const Membership& self, std::vector<Interface> sources = {});
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;
  ~Dialer();

  void dial(int peer, LinkKind kind, std::vector<SocketAddress> candidates, Deadline deadline,
            OnDone on_done);

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
    std::chrono::microseconds pause{0};  ///< the latest between two rounds
    std::vector<std::string> failures;   ///< the latest of each candidate
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

  void attempt(DialList::iterator dial);
  void leave_itself(DialList::iterator dial);
  /// Returns 0, or the errno of what failed.
  int bind_source(int socket, const SocketAddress& target) const;
  [[nodiscard]] int experience(const SocketAddress& address) const;
  void learn(const SocketAddress& address, int answer);
  void on_ready(DialList::iterator dial);
  void on_connected(DialList::iterator dial);
  void on_hello(DialList::iterator dial);
  void on_answer(DialList::iterator dial);
  void shake_hands(DialList::iterator dial);
  void succeed(DialList::iterator dial);
  /// 1: `out` is full; 0: more has to come; -1: the attempt has failed and is over.
  int receive(DialList::iterator dial, std::span<std::byte> out);
  void set_timer(DialList::iterator dial, Reactor::Clock::duration delay, std::string reason);
  /// At the deadline, for what is not tried again before.
  void set_last_timer(DialList::iterator dial, std::string reason);
  void fail_attempt(DialList::iterator dial, std::string reason);
  void finish(DialList::iterator dial, std::optional<Connection> connection);
  void disarm(Dial& dial);

  Reactor& reactor_;
  const Membership& self_;
  std::vector<Interface> sources_;
  /// By address without port: 1 where a peer has answered, -1 where nobody has. Ranks of one host
  /// share addresses, so that what one dial finds out serves the next.
  std::map<std::string, int> experience_;
  DialList dials_;
};

}  // namespace tutti::rendezvous
