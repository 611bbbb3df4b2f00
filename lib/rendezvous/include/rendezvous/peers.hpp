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

/// What this rank knows of all ranks after the info exchange; never changes.
class Peers {
 public:
  /// Throws Error{mismatch} where the infos contradict each other.
  Peers(int rank, std::vector<PeerInfo> infos, std::vector<Interface> own_interfaces);

  [[nodiscard]] int rank() const { return place_.rank; }
  [[nodiscard]] int size() const { return place_.size; }
  [[nodiscard]] const launch::Place& place() const { return place_; }
  [[nodiscard]] const launch::Place& place_of(int peer) const { return places_.at(index(peer)); }
  [[nodiscard]] const PeerInfo& info(int peer) const { return infos_.at(index(peer)); }
  [[nodiscard]] bool on_this_host(int peer) const {
    return place_of(peer).host_index == place_.host_index;
  }
  /// True if `peer`'s pid means the same process here as there.
  [[nodiscard]] bool sees_pid_of(int peer) const;
  /// Whether more of this host's ranks run on this rank's cores than there are, or have less than a
  /// core each by the quota of a control group: whoever spins then takes time from somebody that it
  /// waits for. Ranks bound to cores of their own share none.
  [[nodiscard]] bool shares_cores() const;
  /// The ranks of this host whose processor time `quota` bounds together.
  [[nodiscard]] std::vector<int> ranks_under(const CpuQuota& quota) const;
  /// Throws Error, the same on every rank, where a rank could not open its doors, or where two
  /// hosts have no address family in common.
  void require_ways() const;
  /// Where to try to reach `peer`, best first: loopback inside a host, networks that both are in
  /// before others, what means this rank's own host last.
  [[nodiscard]] std::vector<SocketAddress> candidates(int peer) const;
  /// Those of them that are no addresses of this host, too: a bridge may have the same one on every
  /// host. All where there are no others.
  [[nodiscard]] std::vector<SocketAddress> candidates_elsewhere(int peer) const;
  /// "rank 2 (node1, pid 4711)"; after a shrink "rank 1 (node1, pid 4711, once rank 2)"
  [[nodiscard]] std::string describe(int peer) const;

  /// The ranks that are left, renumbered in their order. This rank must be among them.
  [[nodiscard]] Peers without(const std::set<int>& gone) const;
  /// The rank that `peer` had in the job before any shrink.
  [[nodiscard]] int original_rank(int peer) const { return original_ranks_.at(index(peer)); }
  /// The rank here of the one that started as `original`; -1 where it is gone.
  [[nodiscard]] int rank_of_original(int original) const;

 private:
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  launch::Place place_;
  std::vector<PeerInfo> infos_;
  std::vector<launch::Place> places_;
  std::vector<Interface> own_interfaces_;
  std::vector<int> original_ranks_;
};

/// All that set-up gives: who the peers are, the proof of membership, and the open doors.
struct PeerExchange {
  Peers peers;
  Membership self;
  std::vector<Listener> listeners;
  /// What connections to other hosts must leave by; empty where nothing was said of it.
  std::vector<Interface> sources;
};

/// Collective over `bootstrap`: shares the job secret, opens the listening sockets, exchanges
/// infos, and passes a barrier, so that no rank is left inside the bootstrap's progress when
/// another stops to drive it.
/// `info` is this rank's, but for the addresses; `shared` is null where the ranks have been given
/// no secret. `before_barrier` is called once the peers are known.
[[nodiscard]] PeerExchange exchange_peer_info(
    Bootstrap& bootstrap, PeerInfo info, const Environment& environment,
    const bootstrap::SharedSecret* shared, const launch::LauncherClaim& claim, Log& log,
    Deadline deadline,
    const std::function<void(const Peers&, const bootstrap::JobSecret&)>& before_barrier = nullptr);

}  // namespace tutti::rendezvous
