#include "launch/place.hpp"

#include <fmt/format.h>

#include <map>

#include "launch/launcher.hpp"
#include "launch/resolve.hpp"

namespace tutti::launch {

LauncherClaim read_launcher(const EnvironmentMap& environment) {
  for (const auto& claim : find_claims(environment)) {
    if (!claim.local_rank) continue;
    return {.local_rank = rank_in(*claim.local_rank),
            .source = claim.local_rank->name,
            .rank = claim.rank ? claim.rank->text : "",
            .size = claim.size ? claim.size->text : ""};
  }
  return {};
}

std::vector<Place> find_places(std::span<const std::string> host_identity) {
  struct Host {
    int index;
    int ranks;
  };
  std::map<std::string_view, Host> hosts;
  std::vector<Place> places;
  for (const auto& identity : host_identity) {
    auto& host = hosts.try_emplace(identity, Host{static_cast<int>(hosts.size()), 0}).first->second;
    places.push_back({.rank = static_cast<int>(places.size()),
                      .size = static_cast<int>(host_identity.size()),
                      .local_rank = host.ranks++,
                      .host_index = host.index});
  }
  for (auto& place : places) {
    place.local_size = hosts.at(host_identity[static_cast<std::size_t>(place.rank)]).ranks;
    place.host_count = static_cast<int>(hosts.size());
  }
  return places;
}

std::string disagreement(const LauncherClaim& claim, const Place& place, const std::string& host) {
  if (!claim.local_rank || *claim.local_rank == place.local_rank) return {};
  if (!claim.rank.empty() && claim.rank != std::to_string(place.rank)) return {};
  if (!claim.size.empty() && claim.size != std::to_string(place.size)) return {};
  return fmt::format(
      "local rank {} is used, not {}={}: by the ranks' host identities rank {} is local rank {} of "
      "{} on {}",
      place.local_rank, claim.source, *claim.local_rank, place.rank, place.local_rank,
      place.local_size, host);
}

}  // namespace tutti::launch
