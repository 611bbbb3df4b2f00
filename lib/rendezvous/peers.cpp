#include "rendezvous/peers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tutti/error.hpp"

namespace tutti::rendezvous {
namespace {

std::vector<launch::Place> find_places(const std::vector<Card>& cards) {
  std::vector<std::string> identities;
  for (const auto& card : cards) identities.push_back(card.host.identity);
  return launch::find_places(identities);
}

std::vector<Card> decode_cards(const std::vector<Bytes>& messages) {
  std::vector<Card> cards;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    auto card = Card::decode(messages[rank]);
    if (!card) {
      throw Error(
          ErrorCode::mismatch,
          fmt::format("what rank {} says of itself can't be read: it runs another version of "
                      "tutti, or the bootstrap mixes up messages",
                      rank))
          .with_culprits({static_cast<int>(rank)});
    }
    cards.push_back(std::move(*card));
  }
  return cards;
}

}  // namespace

Peers::Peers(int rank, std::vector<Card> cards, std::vector<Interface> own_interfaces)
    : cards_(std::move(cards)), own_interfaces_(std::move(own_interfaces)) {
  require_agreement(cards_);
  places_ = find_places(cards_);
  place_ = places_.at(index(rank));
}

bool Peers::sees_pid_of(int peer) const {
  const auto& mine = card(rank()).host.pid_namespace;
  return !mine.empty() && mine == card(peer).host.pid_namespace;
}

std::vector<SocketAddress> Peers::candidates(int peer) const {
  std::vector<SocketAddress> result;
  const bool want_loopback = on_this_host(peer);
  for (const auto& address : card(peer).addresses) {
    if (address.is_loopback() == want_loopback) result.push_back(address);
  }
  if (result.empty()) result = card(peer).addresses;
  const auto shares_network = [&](const SocketAddress& address) {
    return std::any_of(own_interfaces_.begin(), own_interfaces_.end(), [&](const auto& own) {
      return own.address.shares_prefix(address, own.prefix_bits);
    });
  };
  std::stable_partition(result.begin(), result.end(), shares_network);
  return result;
}

std::string Peers::describe(int peer) const {
  return fmt::format("rank {} ({}, pid {})", peer, card(peer).host.name, card(peer).pid);
}

Meeting meet(Bootstrap& bootstrap, Card card, const Environment& environment,
             const bootstrap::SharedSecret* shared, const launch::LauncherClaim& claim, Log& log,
             Deadline deadline) {
  const auto secret = bootstrap::JobSecret::share(bootstrap, deadline, shared);
  // Compared like any setting, so that all ranks say who has another one.
  card.settings["TUTTI_SECRET_FILE or TUTTI_SECRET"] =
      shared == nullptr ? "none" : "fingerprint " + shared->fingerprint();

  const auto interfaces =
      usable_interfaces(InterfaceFilter(environment.socket_ifname),
                        environment.socket_ifname_source.empty()
                            ? std::string()
                            : environment.socket_ifname_source + "=" + environment.socket_ifname);
  // Bound before they are published: whoever reads the card can connect at once.
  auto listeners = listen_everywhere(interfaces);

  for (const auto& listener : listeners) card.addresses.push_back(listener.address);
  const auto messages = bootstrap.all_gather(card.encode(), deadline);

  Peers peers(bootstrap.rank(), decode_cards(messages), interfaces);
  const auto& place = peers.place();
  close_unneeded(listeners, place.local_size > 1, place.host_count > 1);
  if (const auto text = launch::disagreement(claim, place, peers.card(place.rank).host.name);
      !text.empty()) {
    log.warning(text);
  }
  bootstrap.barrier(deadline);
  return {std::move(peers),
          Membership{.secret = secret, .epoch = 0, .rank = place.rank, .size = place.size},
          std::move(listeners)};
}

}  // namespace tutti::rendezvous
