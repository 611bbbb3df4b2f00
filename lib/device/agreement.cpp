#include "device/agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace tutti::device {
namespace {

using rendezvous::Peers;

/// Reason for the host path: the ranks without a device.
std::string ranks_without_device(const Peers& peers) {
  std::vector<std::string> without;
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto& info = peers.info(rank);
    if (info.devices.empty()) {
      without.push_back(fmt::format("{}: {}", peers.describe(rank), info.no_device_reason));
    }
  }
  if (without.empty()) return {};
  if (without.size() == static_cast<std::size_t>(peers.size())) return "no rank has a GPU";
  return fmt::format("not every rank has a GPU: {}", fmt::join(without, "; "));
}

std::string ranks_without_nccl(const Peers& peers) {
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto& info = peers.info(rank);
    if (info.nccl_version == 0) {
      return fmt::format("{} has no NCCL ({}): install libnccl2, or put it on LD_LIBRARY_PATH",
                         peers.describe(rank), info.no_nccl_reason);
    }
    if (info.nccl_version != peers.info(0).nccl_version) {
      return fmt::format("{} has NCCL {} and {} has NCCL {}: install one version on all hosts",
                         peers.describe(0), peers.info(0).nccl_version, peers.describe(rank),
                         info.nccl_version);
    }
  }
  return {};
}

std::string too_few_devices(const Peers& peers) {
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto& info = peers.info(rank);
    const auto& place = peers.place_of(rank);
    const auto visible = static_cast<int>(info.devices.size());
    if (!info.device && visible > 1 && place.local_rank >= visible) {
      return fmt::format(
          "host {}: {} local ranks, {} devices: start at most one rank a device (with mpirun, "
          "slots={} in the hostfile)",
          info.host.name, place.local_size, visible, visible);
    }
  }
  return {};
}

std::string shared_devices(const Peers& peers, const std::vector<int>& device_of_rank) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;
  for (int rank = 0; rank < peers.size(); ++rank) {
    const auto& info = peers.info(rank);
    const auto& device =
        info.devices[static_cast<std::size_t>(device_of_rank[static_cast<std::size_t>(rank)])];
    if (device.is_slice) {
      return fmt::format(
          "{} uses a MIG slice ({}, {}), which NCCL does not serve: switch MIG off, or use the "
          "cpu backend",
          peers.describe(rank), device.name, device.uuid);
    }
    users[{info.host.identity, device.uuid}].push_back(rank);
  }
  for (const auto& [device, ranks] : users) {
    if (ranks.size() < 2) continue;
    std::vector<std::string> names;
    for (const int rank : ranks) names.push_back(peers.describe(rank));
    const auto& info = peers.info(ranks.front());
    const auto local_size = peers.place_of(ranks.front()).local_size;
    const auto index =
        static_cast<std::size_t>(device_of_rank[static_cast<std::size_t>(ranks.front())]);
    return fmt::format(
        "host {}: {} local ranks, {} device{} visible to each; {} share {} ({}): give each rank a "
        "device of its own by CUDA_VISIBLE_DEVICES, or start fewer ranks",
        info.host.name, local_size, info.devices.size(), info.devices.size() == 1 ? "" : "s",
        fmt::join(names, " and "), info.devices[index].name, info.devices[index].bus_id);
  }
  return {};
}

}  // namespace

Agreement agree(const Peers& peers) {
  Agreement agreement;
  agreement.reason = ranks_without_device(peers);
  if (!agreement.reason.empty()) return agreement;
  for (int rank = 0; rank < peers.size(); ++rank) {
    // More ranks than devices share them in turn; NCCL is not used then.
    const auto& info = peers.info(rank);
    const auto visible = static_cast<int>(info.devices.size());
    agreement.device_of_rank.push_back(info.device ? static_cast<int>(*info.device)
                                                   : peers.place_of(rank).local_rank % visible);
  }
  agreement.mode = DeviceMode::staged;
  for (auto* check : {ranks_without_nccl, too_few_devices}) {
    agreement.reason = check(peers);
    if (!agreement.reason.empty()) return agreement;
  }
  agreement.reason = shared_devices(peers, agreement.device_of_rank);
  if (!agreement.reason.empty()) return agreement;
  agreement.mode = DeviceMode::nccl;
  agreement.reason = "every rank has a device of its own";
  return agreement;
}

}  // namespace tutti::device
