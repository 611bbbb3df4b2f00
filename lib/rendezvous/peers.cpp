#include "rendezvous/peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error_builder.hpp"
#include "rendezvous/tls.hpp"
#include "tutti/error.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::size_t max_interfaces = 100;  // peer info holds at most 128 addresses

std::vector<launch::Place> find_places(const std::vector<PeerInfo>& infos) {
  std::vector<std::string> identities;
  identities.reserve(infos.size());
  for (const auto& info : infos) identities.push_back(info.host.identity);
  return launch::find_places(identities);
}

std::vector<PeerInfo> decode_peer_infos(const std::vector<Bytes>& messages) {
  std::vector<PeerInfo> infos;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    auto info = PeerInfo::decode(messages[rank]);
    if (!info) {
      throw Error(ErrorCode::mismatch,
                  fmt::format("peer info of rank {} is malformed: it runs another version of "
                              "tutti, or the bootstrap delivered another message",
                              rank),
                  {static_cast<int>(rank)});
    }
    infos.push_back(std::move(*info));
  }
  return infos;
}

}  // namespace

Peers::Peers(int rank, std::vector<PeerInfo> infos, std::vector<Interface> own_interfaces)
    : infos_(std::move(infos)), own_interfaces_(std::move(own_interfaces)) {
  require_agreement(infos_);
  places_ = find_places(infos_);
  place_ = places_.at(index(rank));
  original_ranks_.resize(infos_.size());
  std::iota(original_ranks_.begin(), original_ranks_.end(), 0);
}

Peers Peers::without(const std::set<int>& gone) const {
  std::vector<PeerInfo> infos;
  std::vector<int> original_ranks;
  int new_rank = -1;
  for (int peer = 0; peer < size(); ++peer) {
    if (gone.contains(peer)) continue;
    if (peer == rank()) new_rank = static_cast<int>(infos.size());
    infos.push_back(info(peer));
    original_ranks.push_back(original_rank(peer));
  }
  Peers rest(new_rank, std::move(infos), own_interfaces_);
  rest.original_ranks_ = std::move(original_ranks);
  return rest;
}

int Peers::rank_of_original(int original) const {
  const auto found = std::find(original_ranks_.begin(), original_ranks_.end(), original);
  return found == original_ranks_.end() ? -1 : static_cast<int>(found - original_ranks_.begin());
}

bool Peers::shares_cores() const {
  const auto& mine = info(rank());
  std::uint32_t ranks_on_cores = 0;
  for (int peer = 0; peer < size(); ++peer) {
    if (on_this_host(peer) && info(peer).first_core == mine.first_core) ++ranks_on_cores;
  }
  if (ranks_on_cores > mine.cores) return true;
  return std::any_of(mine.cpu_quotas.begin(), mine.cpu_quotas.end(), [&](const auto& quota) {
    return std::uint64_t{quota.millicores} < 1000 * ranks_under(quota).size();
  });
}

std::vector<int> Peers::ranks_under(const CpuQuota& quota) const {
  std::vector<int> ranks;
  for (int peer = 0; peer < size(); ++peer) {
    if (on_this_host(peer) && is_under(info(peer).cpu_quotas, quota)) ranks.push_back(peer);
  }
  return ranks;
}

bool Peers::sees_pid_of(int peer) const {
  const auto& mine = info(rank()).host.pid_namespace;
  return !mine.empty() && mine == info(peer).host.pid_namespace;
}

std::vector<SocketAddress> Peers::candidates(int peer) const {
  std::vector<SocketAddress> result;
  const bool want_loopback = on_this_host(peer);
  for (const auto& address : info(peer).addresses) {
    if (address.is_loopback() == want_loopback) result.push_back(address);
  }
  if (result.empty()) result = info(peer).addresses;
  enum Preference : std::uint8_t { common_network, common_family, other_family, own_address };
  const auto preference = [&](const SocketAddress& address) {
    auto best = own_interfaces_.empty() ? common_family : other_family;
    for (const auto& own : own_interfaces_) {
      // A bridge may have the same address on every host; dialing it would reach this host.
      if (own.address.is_same_host(address)) return own_address;
      if (own.address.shares_prefix(address, own.prefix_bits)) {
        best = common_network;
      } else if (own.address.family() == address.family()) {
        best = std::min(best, common_family);
      }
    }
    return best;
  };
  std::stable_sort(result.begin(), result.end(), [&](const auto& one, const auto& other) {
    return preference(one) < preference(other);
  });
  return result;
}

std::vector<SocketAddress> Peers::remote_candidates(int peer) const {
  const auto all = candidates(peer);
  auto result = all;
  std::erase_if(result, [this](const SocketAddress& address) {
    return std::any_of(own_interfaces_.begin(), own_interfaces_.end(),
                       [&](const Interface& own) { return own.address.is_same_host(address); });
  });
  return result.empty() ? all : result;
}

void Peers::require_reachable() const {
  std::vector<std::vector<SocketAddress>> addresses;
  std::vector<std::string> hosts;
  std::vector<std::string> identities;
  for (int rank = 0; rank < size(); ++rank) {
    const auto& it = info(rank);
    if (!it.failure.empty()) {
      throw ErrorBuilder(Error(it.failure_is_usage ? ErrorCode::usage : ErrorCode::system,
                               fmt::format("{}: {}", describe(rank), it.failure), {rank}))
          .at(this->rank(), info(this->rank()).host.name)
          .speaks_for_job(this->rank() == 0)
          .error();
    }
    addresses.push_back(it.addresses);
    hosts.push_back(it.host.name);
    identities.push_back(it.host.identity);
  }
  require_common_family(addresses, hosts, identities);
}

std::string Peers::describe(int peer) const {
  const int original = original_rank(peer);
  const auto before = original == peer ? std::string() : fmt::format(", once rank {}", original);
  return fmt::format("rank {} ({}, pid {}{})", peer, info(peer).host.name, info(peer).pid, before);
}

PeerExchange exchange_peer_info(
    Bootstrap& bootstrap, PeerInfo info, const Environment& environment,
    const bootstrap::SharedSecret* shared, const launch::LauncherClaim& claim, Log& log,
    Deadline deadline,
    const std::function<void(const Peers&, const bootstrap::JobSecret&)>& before_barrier) {
  const auto secret = bootstrap::JobSecret::share(bootstrap, deadline, shared);
  // Compared like a setting, so that all ranks report which rank has another secret.
  info.settings["TUTTI_SECRET_FILE or TUTTI_SECRET"] =
      shared == nullptr ? "none" : "fingerprint " + shared->fingerprint();

  // A local failure is published in the peer info, so that all ranks fail alike.
  std::vector<Interface> interfaces;
  std::vector<Listener> listeners;
  std::shared_ptr<const TlsContext> tls;
  try {
    if (environment.encrypt) tls = std::make_shared<TlsContext>();
    interfaces = usable_interfaces(environment);
    if (interfaces.size() > max_interfaces) interfaces.resize(max_interfaces);
    // Bound before they are published: a peer may connect as soon as it has the info.
    listeners = open_listeners(interfaces, environment.socket_family, environment.port_range);
  } catch (const Error& error) {
    info.failure = error.sentence();
    info.failure_is_usage = error.code() == ErrorCode::usage;
  }
  for (const auto& listener : listeners) info.addresses.push_back(listener.address);
  const auto messages = bootstrap.all_gather(info.encode(), deadline);

  Peers peers(bootstrap.rank(), decode_peer_infos(messages), interfaces);
  peers.require_reachable();
  const auto& place = peers.place();
  close_unneeded_listeners(listeners, place.local_size > 1, place.host_count > 1);
  if (const auto text = launch::disagreement(claim, place, peers.info(place.rank).host.name);
      !text.empty()) {
    log.warning(text);
  }
  if (before_barrier) before_barrier(peers, secret);
  bootstrap.barrier(deadline);
  return {std::move(peers),
          Membership{.secret = secret,
                     .epoch = 0,
                     .rank = place.rank,
                     .size = place.size,
                     .tls = std::move(tls)},
          std::move(listeners),
          InterfaceFilter::from(environment).is_set() ? interfaces : std::vector<Interface>()};
}

}  // namespace tutti::rendezvous
