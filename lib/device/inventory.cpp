#include "device/inventory.hpp"

#include <fmt/format.h>

namespace tutti::device {
namespace {

std::string uuid_text(const CudaUuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid[i]));
  }
  return text;
}

/// Empty if a call fails: the device is omitted, and `failure` is set.
std::optional<rendezvous::PeerDevice> describe(const CudaCalls& cuda, int ordinal,
                                               std::string& failure) {
  CudaDevice device = 0;
  CudaUuid uuid{};
  std::array<char, 256> name{};
  std::array<char, 64> bus_id{};
  for (const CudaResult result :
       {cuda.device_get(&device, ordinal), cuda.device_uuid(&uuid, device),
        cuda.device_name(name.data(), static_cast<int>(name.size()) - 1, device),
        cuda.device_bus_id(bus_id.data(), static_cast<int>(bus_id.size()) - 1, device)}) {
    if (result == cuda_success) continue;
    failure = fmt::format("device {}: {}", ordinal, cuda_error_text(cuda, result));
    return std::nullopt;
  }
  rendezvous::PeerDevice info{
      .uuid = uuid_text(uuid), .name = name.data(), .bus_id = bus_id.data()};
  CudaUuid card_uuid{};
  const bool differs = cuda.card_uuid != nullptr &&
                       cuda.card_uuid(&card_uuid, device) == cuda_success && card_uuid != uuid;
  info.is_slice = differs || info.name.find(" MIG ") != std::string::npos;
  return info;
}

}  // namespace

std::string cuda_error_text(const CudaCalls& cuda, CudaResult result) {
  const char* text = nullptr;
  if (cuda.error_text != nullptr && cuda.error_text(result, &text) == cuda_success &&
      text != nullptr) {
    return fmt::format("CUDA driver: {} ({})", text, result);
  }
  return fmt::format("CUDA driver: error {}", result);
}

Inventory take_inventory(const CudaCalls& cuda, const std::string& missing) {
  Inventory inventory;
  if (!missing.empty()) {
    inventory.none_because = "there is no CUDA driver (" + missing + ")";
    return inventory;
  }
  int count = 0;
  CudaResult result = cuda.init(0);
  if (result == cuda_success) result = cuda.device_count(&count);
  if (result != cuda_success) {
    inventory.none_because = cuda_error_text(cuda, result);
    return inventory;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto info = describe(cuda, ordinal, inventory.none_because);
    if (info) inventory.devices.push_back(std::move(*info));
  }
  if (!inventory.devices.empty()) {
    inventory.none_because.clear();
  } else if (inventory.none_because.empty()) {
    inventory.none_because = "the driver reports no device (CUDA_VISIBLE_DEVICES may hide them)";
  }
  return inventory;
}

std::vector<std::pair<int, int>> pairs_without_peer_access(const CudaCalls& cuda) {
  std::vector<std::pair<int, int>> result;
  int count = 0;
  if (cuda.device_can_access_peer == nullptr || cuda.device_count(&count) != cuda_success) {
    return result;
  }
  const auto reaches = [&](int from, int to) {
    CudaDevice device = 0;
    CudaDevice peer = 0;
    int can = 0;
    return cuda.device_get(&device, from) != cuda_success ||
           cuda.device_get(&peer, to) != cuda_success ||
           cuda.device_can_access_peer(&can, device, peer) != cuda_success || can != 0;
  };
  for (int one = 0; one < count; ++one) {
    for (int other = one + 1; other < count; ++other) {
      if (!reaches(one, other) || !reaches(other, one)) result.emplace_back(one, other);
    }
  }
  return result;
}

}  // namespace tutti::device
