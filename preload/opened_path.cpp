#include "opened_path.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <set>

#include "control/group.hpp"
#include "device/inventory.hpp"
#include "device/setup_exchange.hpp"
#include "real_nccl.hpp"
#include "setup_backend.hpp"
#include "tutti/version.hpp"

namespace tutti::preload {
namespace {

/// The ranks come here within moments of each other, since NCCL's set-up has just returned.
constexpr std::chrono::seconds setup_limit{10};

rendezvous::PeerInfo own_info(const NcclRank& who, const Environment& environment,
                              const device::Library<device::CudaCalls>& cuda) {
  // Not by make_peer_info(), which raises the process's limit of open files.
  rendezvous::PeerInfo info;
  info.version = version_string;
  const auto settings = environment.agreed_settings();
  info.settings.insert(*settings.find("TUTTI_DEVICE_PATH"));
  info.host = rendezvous::find_host_identity(environment);
  info.pid = static_cast<std::uint32_t>(::getpid());
  info.process_start = rendezvous::process_start_ticks(info.pid);
  auto inventory = device::take_inventory(cuda.calls, cuda.missing);
  const auto device = static_cast<std::size_t>(who.device);
  if (device >= inventory.devices.size()) {
    throw Error(ErrorCode::system, fmt::format("CUDA shows no device {}", who.device));
  }
  info.devices = {inventory.devices[device]};
  return info;
}

std::unique_ptr<rendezvous::Peers> exchange_infos(const NcclRank& who,
                                                  const rendezvous::PeerInfo& own,
                                                  HostSegment& segment, Deadline deadline) {
  std::vector<rendezvous::PeerInfo> infos;
  for (const auto& block : segment.all_gather(own.encode(), deadline)) {
    auto info = rendezvous::PeerInfo::decode(block);
    if (!info) throw Error(ErrorCode::mismatch, "a rank's description is malformed");
    infos.push_back(std::move(*info));
  }
  return std::make_unique<rendezvous::Peers>(who.rank, std::move(infos),
                                             std::vector<rendezvous::Interface>());
}

/// Why the ranks' devices rule the direct path out, as all ranks know; empty if they don't.
std::string obstacle_of_devices(const rendezvous::Peers& peers) {
  std::set<std::string> seen;
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto& device = peers.info(rank).devices.at(0);
    if (device.is_slice) return fmt::format("{} uses a MIG slice", peers.describe(rank));
    if (!seen.insert(device.uuid).second) return "two of its ranks share a device";
    if (!peers.sees_pid_of(rank)) return "its ranks have several pid namespaces";
  }
  return {};
}

device::direct::TuningSource tuning_source(const Environment& environment,
                                           const rendezvous::Peers& peers,
                                           const device::CudaCalls& cuda, std::string& warning) {
  std::vector<std::string> cards;
  cards.reserve(static_cast<std::size_t>(peers.size()));
  for (int rank = 0; rank < peers.size(); ++rank) {
    cards.push_back(peers.info(rank).devices.at(0).name);
  }
  int version = 0;
  static_cast<void>(hand_on(real_nccl().get_version, &version));
  return {.file = environment.tuning_file,
          .key = device::make_tuning_key(cards, cuda, version),
          .warn = [&warning](const std::string& text) { warning = text; }};
}

}  // namespace

OpenedPath open_path(const NcclRank& who, std::unique_ptr<HostSegment> segment,
                     const Environment& environment,
                     const std::shared_ptr<const device::Library<device::CudaCalls>>& cuda,
                     const std::shared_ptr<device::direct::ClosingStaging>& closing) {
  OpenedPath opened;
  if (segment->registered() != who.size) {
    opened.reason = fmt::format(
        "{} of its {} ranks are on this host, with a device of their own and with this library",
        segment->registered(), who.size);
    return opened;
  }
  if (who.size > HostSegment::max_ranks) {
    opened.reason = fmt::format("it has more than {} ranks", HostSegment::max_ranks);
    return opened;
  }
  segment->set_ranks(who.rank, who.size);
  const auto deadline = Deadline::after(setup_limit);
  try {
    opened.peers = exchange_infos(who, own_info(who, environment, *cuda), *segment, deadline);
    opened.reason = obstacle_of_devices(*opened.peers);
    if (!opened.reason.empty()) return opened;
    const auto group = control::Group::whole_job(who.rank, who.size);
    SetupBackend host(*segment, who.rank);
    device::SetupExchange setup(*opened.peers, group, host, deadline);
    std::string failure;
    try {
      opened.processes = std::make_unique<PeerProcesses>(*opened.peers);
      opened.context = std::make_shared<const device::Context>(cuda, who.device);
    } catch (const Error& error) {
      failure = error.sentence();
    }
    static_cast<void>(setup.all_done(true, failure));
    const auto tuning = tuning_source(environment, *opened.peers, cuda->calls, opened.warning);
    opened.path = device::direct::DirectPath::open({.context = opened.context,
                                                    .peers = *opened.peers,
                                                    .group = group,
                                                    .closing = closing,
                                                    .choice = environment.device_path,
                                                    .tuning = tuning},
                                                   setup, opened.reason);
    if (opened.path == nullptr) return opened;
    if (segment->agree(deadline)) {
      opened.segment = std::move(segment);
      return opened;
    }
    opened.reason = "a rank did not come to the end of the set-up";
  } catch (const std::exception& error) {
    segment->refuse();
    opened.reason = error.what();
  }
  // A peer may use what this rank has exported.
  if (opened.path) opened.path->abort();
  opened.path.reset();
  return opened;
}

}  // namespace tutti::preload
