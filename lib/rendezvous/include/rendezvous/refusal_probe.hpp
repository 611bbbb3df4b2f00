#pragma once

#include <functional>
#include <vector>

#include "base/reactor.hpp"
#include "rendezvous/address.hpp"

namespace tutti::rendezvous {

/// Finds out whether a rank of another host has ended before it had a link with this one: its ports
/// stay open as long as it lives, so that a host which refuses connections at every one of them,
/// again and again, has nobody there any more, or the addresses lead elsewhere. One address that
/// doesn't answer says nothing, and keeps the others from saying it.
class RefusalProbe {
 public:
  static constexpr std::chrono::milliseconds usual_round{500};

  /// Dials all `candidates` once a `round` and closes what it gets. Calls `on_refused`, once,
  /// when all have refused in four rounds in a row. A rank that accepts lives, and is asked less
  /// and less often: its queue of connections is for others.
  RefusalProbe(Reactor& reactor, std::vector<SocketAddress> candidates,
               std::function<void()> on_refused, std::chrono::milliseconds round = usual_round);
  RefusalProbe(const RefusalProbe&) = delete;
  RefusalProbe& operator=(const RefusalProbe&) = delete;
  ~RefusalProbe();

 private:
  void begin_round();
  void end_round();
  /// True if the kernel has refused it at once.
  bool dial(std::size_t candidate);
  void close_sockets();

  Reactor& reactor_;
  std::vector<SocketAddress> candidates_;
  std::function<void()> on_refused_;
  std::vector<Descriptor> sockets_;  ///< of the round in progress
  std::size_t refused_ = 0;          ///< of its candidates
  bool accepted_ = false;            ///< by one of them
  std::chrono::milliseconds round_;
  std::chrono::milliseconds pause_;  ///< from one round to the next
  int rounds_ = 0;                   ///< in a row, in which all were refused
  Reactor::TimerId timer_ = 0;
};

}  // namespace tutti::rendezvous
