#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device/calls.hpp"
#include "rendezvous/peer_info.hpp"

namespace tutti::device {

/// The devices that this process sees (subject to CUDA_VISIBLE_DEVICES), by index.
struct Inventory {
  std::vector<rendezvous::PeerDevice> devices;
  std::string none_because;  ///< why there are none; empty if there are some
};

/// `missing`: why the CUDA driver can't be used; empty if it can.
[[nodiscard]] Inventory take_inventory(const CudaCalls& cuda, const std::string& missing);

/// Pairs of devices without peer access, as far as this process sees them: NCCL uses host memory
/// between them. Empty if the driver can't tell.
[[nodiscard]] std::vector<std::pair<int, int>> pairs_without_peer_access(const CudaCalls& cuda);

/// "CUDA driver: out of memory (2)"
[[nodiscard]] std::string cuda_error_text(const CudaCalls& cuda, CudaResult result);

}  // namespace tutti::device
