#pragma once

#include "communicator/device_provider.hpp"
#include "device/library.hpp"

namespace tutti::device {

/// The device path through the CUDA driver and NCCL, as far as they are there.
class Provider final : public DeviceProvider {
 public:
  /// With the libraries of this node, or those of a test.
  Provider(Library<CudaCalls> cuda, Library<NcclCalls> nccl);

  void describe(rendezvous::Card& card) override;
  DevicePath open(control::Plane& plane, Backend& host, bool required,
                  std::chrono::nanoseconds timeout) override;

 private:
  std::shared_ptr<const Library<CudaCalls>> cuda_;
  std::shared_ptr<const Library<NcclCalls>> nccl_;
};

}  // namespace tutti::device
