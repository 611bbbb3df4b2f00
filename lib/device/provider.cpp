#include "device/provider.hpp"

#include <fmt/format.h>

#include "device/agreement.hpp"
#include "device/device_backend.hpp"
#include "device/inventory.hpp"

namespace tutti::device {

Provider::Provider(Library<CudaCalls> cuda, Library<NcclCalls> nccl)
    : cuda_(std::make_shared<const Library<CudaCalls>>(std::move(cuda))),
      nccl_(std::make_shared<const Library<NcclCalls>>(std::move(nccl))) {}

void Provider::describe(rendezvous::Card& card) {
  auto inventory = take_inventory(cuda_->calls, cuda_->missing);
  card.devices = std::move(inventory.devices);
  card.no_device_because = std::move(inventory.none_because);
  if (!nccl_->usable()) {
    card.no_nccl_because = nccl_->missing;
    return;
  }
  int version = 0;
  if (nccl_->calls.get_version(&version) == nccl_success && version > 0) {
    card.nccl_version = static_cast<std::uint32_t>(version);
  } else {
    card.no_nccl_because = "it does not tell its version";
  }
}

DevicePath Provider::open(control::Plane& plane, Backend& host, bool required,
                          std::chrono::nanoseconds timeout) {
  const auto agreement = agree(plane.peers());
  if (!agreement.on_devices) {
    if (required) {
      throw Error(
          ErrorCode::usage,
          fmt::format("the nccl backend can't be used: {}; the cpu backend can (--backend cpu, "
                      "or TUTTI_BACKEND=cpu)",
                      agreement.reason));
    }
    return {.reason = agreement.reason};
  }
  const auto index = agreement.device_of_rank[static_cast<std::size_t>(plane.peers().rank())];
  auto session =
      std::make_unique<Session>(Session::Parts{cuda_, nccl_, plane, host}, index, timeout);
  auto backend = std::make_unique<DeviceBackend>(plane, std::move(session));
  DevicePath path{.device = index, .reason = agreement.reason, .phases = backend->phases()};
  path.backend = std::move(backend);
  for (int rank = 0; rank < plane.peers().size(); ++rank) {
    const auto of_rank = agreement.device_of_rank[static_cast<std::size_t>(rank)];
    const auto& card = plane.peers().card(rank).devices[static_cast<std::size_t>(of_rank)];
    path.device_of_rank.push_back(fmt::format("{}, {}", card.name, card.bus_id));
  }
  return path;
}

}  // namespace tutti::device
