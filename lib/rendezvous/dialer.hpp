#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/reactor.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/connection.hpp"
#include "tutti/deadline.hpp"

namespace tutti::rendezvous {

/// Connects to peers and proves itself to them. Each candidate address is tried in turn, again and
/// again until the deadline: a host may be slow, an interface unreachable, and behind an address
/// may be somebody else.
class Dialer {
 public:
  /// Called once a dial, with the connection or with a sentence that says what happened at each
  /// address.
  using OnDone = std::function<void(std::optional<Connection>, const std::string& failure)>;

  Dialer(Reactor& reactor, const Membership& self);
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;
  ~Dialer();

  void dial(int peer, LinkKind kind, std::vector<SocketAddress> candidates, Deadline deadline,
            OnDone on_done);

 private:
  enum class State : std::uint8_t { idle, connecting, awaiting_hello, awaiting_answer };
  struct Dial {
    int peer;
    LinkKind kind;
    std::vector<SocketAddress> candidates;
    Deadline deadline;
    OnDone on_done;
    std::size_t candidate = 0;
    int round = 0;
    std::vector<std::string> failures;  ///< the latest of each candidate
    State state = State::idle;
    Descriptor socket;
    Reactor::TimerId timer = 0;
    Hello hello{};
    Proof proof{};
    Answer answer{};
    std::size_t received = 0;
  };
  using DialList = std::list<Dial>;

  void attempt(DialList::iterator dial);
  void on_ready(DialList::iterator dial);
  void on_connected(DialList::iterator dial);
  void on_hello(DialList::iterator dial);
  void on_answer(DialList::iterator dial);
  /// 1: `out` is full; 0: more has to come; -1: the attempt has failed and is over.
  int receive(DialList::iterator dial, std::span<std::byte> out);
  void set_timer(DialList::iterator dial, Reactor::Clock::duration delay, std::string reason);
  void fail_attempt(DialList::iterator dial, std::string reason);
  void finish(DialList::iterator dial, std::optional<Connection> connection);
  void disarm(Dial& dial);

  Reactor& reactor_;
  const Membership& self_;
  DialList dials_;
};

}  // namespace tutti::rendezvous
