#pragma once

#include <string>
#include <vector>

#include "device/calls.hpp"
#include "rendezvous/card.hpp"

namespace tutti::device {

/// The devices that this process sees (CUDA_VISIBLE_DEVICES counts), in the order of their indices.
struct Inventory {
  std::vector<rendezvous::DeviceCard> devices;
  std::string none_because;  ///< why there are none; empty if there are some
};

/// `missing`: why the CUDA driver can't be used; empty if it can.
[[nodiscard]] Inventory take_inventory(const CudaCalls& cuda, const std::string& missing);

/// "CUDA driver: out of memory (2)"
[[nodiscard]] std::string cuda_error_text(const CudaCalls& cuda, CudaResult result);

}  // namespace tutti::device
