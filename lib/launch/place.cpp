#include "launch/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "tutti/error.hpp"

namespace tutti::launch {
namespace {

constexpr int most_ranks = 1 << 24;

int parse_rank(std::string_view variable, std::string_view value) {
  int number = -1;
  const auto* const end = value.data() + value.size();
  const auto result = std::from_chars(value.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || number < 0 || number >= most_ranks) {
    throw Error(ErrorCode::usage,
                fmt::format("{}={} is no rank: the launcher sets a whole number from 0 up; unset "
                            "the variable if it is left over from another job",
                            variable, value));
  }
  return number;
}

}  // namespace

LauncherClaim read_launcher(const EnvironmentMap& environment) {
  // Only Open MPI so far; other launchers are added here, most direct first.
  const auto found = environment.find("OMPI_COMM_WORLD_LOCAL_RANK");
  if (found == environment.end()) return {};
  return {parse_rank(found->first, found->second), found->first};
}

bool started_by_mpi_launcher(const EnvironmentMap& environment) {
  constexpr std::array<std::string_view, 7> traces{
      "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_SIZE", "PMI_FD",
      "MPI_LOCALRANKID"};
  return std::any_of(traces.begin(), traces.end(), [&](std::string_view name) {
    return environment.find(name) != environment.end();
  });
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
  return fmt::format(
      "{}={}, but rank {} is local rank {} of {} on {} by what the ranks say of their hosts; the "
      "latter is used",
      claim.source, *claim.local_rank, place.rank, place.local_rank, place.local_size, host);
}

}  // namespace tutti::launch
