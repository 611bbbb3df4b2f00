#pragma once

#include <functional>
#include <vector>

#include "base/reactor.hpp"
#include "rendezvous/address.hpp"
#include "rendezvous/interfaces.hpp"

namespace tutti::rendezvous {

/// Detects that a rank on another host ended before it had a link with this one. A rank's ports
/// stay open as long as it lives, so if all of them refuse connections repeatedly, the process has
/// ended or the addresses lead elsewhere. An address that does not answer proves nothing and
/// prevents that conclusion.
class RefusalProbe {
 public:
  static constexpr std::chrono::milliseconds default_round{500};

  /// Dials all `candidates` once per `round` from the interfaces `sources`, as the Dialer does, and
  /// closes what connects. Calls `on_refused` once,
  /// after four consecutive rounds in which all refused. Once a rank accepts, the interval doubles
  /// each round, because its accept queue serves others.
  RefusalProbe(Reactor& reactor, std::vector<SocketAddress> candidates,
               std::vector<Interface> sources, std::function<void()> on_refused,
               std::chrono::milliseconds round = default_round);
  RefusalProbe(const RefusalProbe&) = delete;
  RefusalProbe& operator=(const RefusalProbe&) = delete;
  ~RefusalProbe();

 private:
  void begin_round();
  void end_round();
  /// True if the connection was refused immediately.
  bool dial(std::size_t candidate);
  void close_sockets();

  Reactor& reactor_;
  std::vector<SocketAddress> candidates_;
  std::vector<Interface> sources_;
  std::function<void()> on_refused_;
  std::vector<Descriptor> sockets_;  ///< of the current round
  std::size_t refused_ = 0;          ///< candidates that refused in this round
  bool accepted_ = false;            ///< a candidate accepted in this round
  std::chrono::milliseconds round_;
  std::chrono::milliseconds pause_;  ///< between rounds
  int rounds_ = 0;                   ///< consecutive rounds in which all refused
  Reactor::TimerId timer_ = 0;
};

}  // namespace tutti::rendezvous
