#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "bootstrap/shared_secret.hpp"
#include "launch/place.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/listener.hpp"
#include "rendezvous/peer_info.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::rendezvous {

/// All ranks' peer info, immutable after the exchange.
class Peers {
 public:
  /// Throws Error{mismatch} if versions or settings differ.
  Peers(int rank, std::vector<PeerInfo> infos, std::vector<Interface> own_interfaces);

  [[nodiscard]] int rank() const { return place_.rank; }
  [[nodiscard]] int size() const { return place_.size; }
  [[nodiscard]] const launch::Place& place() const { return place_; }
  [[nodiscard]] const launch::Place& place_of(int peer) const { return places_.at(index(peer)); }
  [[nodiscard]] const PeerInfo& info(int peer) const { return infos_.at(index(peer)); }
  [[nodiscard]] bool on_this_host(int peer) const {
    return place_of(peer).host_index == place_.host_index;
  }
  /// True if `peer` is in this process's pid namespace.
  [[nodiscard]] bool sees_pid_of(int peer) const;
  /// True if this host's ranks outnumber the cores that they share with this rank, or have less
  /// than one core each under a control group's quota. A rank that spins then takes time from ranks
  /// that it waits for. Ranks bound to separate cores share none.
  [[nodiscard]] bool shares_cores() const;
  /// This host's ranks that share the CPU quota `quota`.
  [[nodiscard]] std::vector<int> ranks_under(const CpuQuota& quota) const;
  /// Throws Error, the same on every rank, if a rank could not listen, or if two hosts have no
  /// common address family.
  void require_reachable() const;
  /// Addresses to dial `peer` at, best first: loopback inside a host, else addresses in a common
  /// network first and addresses that this host has too last.
  [[nodiscard]] std::vector<SocketAddress> candidates(int peer) const;
  /// candidates() without addresses that this host has too (a bridge may have the same address on
  /// every host); all candidates if no others are left.
  [[nodiscard]] std::vector<SocketAddress> remote_candidates(int peer) const;
  /// "rank 2 (node1, pid 4711)"; after a shrink "rank 1 (node1, pid 4711, once rank 2)".
  [[nodiscard]] std::string describe(int peer) const;

  /// The ranks without `gone`, renumbered in order. This rank must not be in `gone`.
  [[nodiscard]] Peers without(const std::set<int>& gone) const;
  /// The rank that `peer` had before any shrink.
  [[nodiscard]] int original_rank(int peer) const { return original_ranks_.at(index(peer)); }
  /// Current rank of the process that started as `original`; -1 if it is gone.
  [[nodiscard]] int rank_of_original(int original) const;

 private:
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  launch::Place place_;
  std::vector<PeerInfo> infos_;
  std::vector<launch::Place> places_;
  std::vector<Interface> own_interfaces_;
  std::vector<int> original_ranks_;
};

/// Result of set-up: peers, this rank's credentials, and open listeners.
struct PeerExchange {
  Peers peers;
  Membership self;
  std::vector<Listener> listeners;
  /// Local interfaces for connections to other hosts; empty if the kernel chooses.
  std::vector<Interface> sources;
};

/// Collective over `bootstrap`: shares the job secret, opens the listeners, exchanges peer info,
/// and ends with a barrier, so that no rank is still inside the bootstrap's progress when another
/// rank stops driving it. `info` is this rank's, without addresses; `shared` is null if the ranks
/// were given no secret. `before_barrier` is called once the peers are known.
[[nodiscard]] PeerExchange exchange_peer_info(
    Bootstrap& bootstrap, PeerInfo info, const Environment& environment,
    const bootstrap::SharedSecret* shared, const launch::LauncherClaim& claim, Log& log,
    Deadline deadline,
    const std::function<void(const Peers&, const bootstrap::JobSecret&)>& before_barrier = nullptr);

}  // namespace tutti::rendezvous
