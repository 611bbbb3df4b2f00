#include "control/descriptors.hpp"

#include <fmt/format.h>

#include "base/error_builder.hpp"
#include "control/topology.hpp"
#include "tutti/error.hpp"

namespace tutti::control {
namespace {

constexpr std::int64_t own_descriptors = 8;  // epoll, eventfds, and connections in their handshake

std::int64_t free_descriptors(const rendezvous::PeerInfo& info) {
  return static_cast<std::int64_t>(info.open_files_limit) -
         static_cast<std::int64_t>(info.open_files);
}

}  // namespace

std::int64_t needed_descriptors(const rendezvous::Peers& peers, int rank) {
  const auto links = static_cast<std::int64_t>(neighbours(rank, peers.size()).size());
  // A control link and two data links for each neighbour.
  return own_descriptors + 3 * links;
}

std::int64_t spare_descriptors(const rendezvous::Peers& peers) {
  return free_descriptors(peers.info(peers.rank())) - needed_descriptors(peers, peers.rank());
}

void require_descriptors(const rendezvous::Peers& peers) {
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto& info = peers.info(rank);
    const auto needed = needed_descriptors(peers, rank);
    if (free_descriptors(info) >= needed) continue;
    throw ErrorBuilder(
        Error(ErrorCode::system,
              fmt::format(
                  "{} may open {} files and has {} open, but needs {} more: raise the limit with "
                  "ulimit -n {}",
                  peers.describe(rank), info.open_files_limit, info.open_files, needed,
                  static_cast<std::int64_t>(info.open_files) + needed),
              {rank}))
        .at(peers.rank(), peers.info(peers.rank()).host.name)
        .speaks_for_job(peers.rank() == 0)
        .error();
  }
}

}  // namespace tutti::control
