#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "communicator/backend.hpp"
#include "control/plane.hpp"
#include "rendezvous/card.hpp"

namespace tutti {

/// The device path, or why there is none.
struct DevicePath {
  std::unique_ptr<Backend> backend;  ///< null on the host path
  int device = -1;                   ///< index among the devices that this process sees
  std::vector<std::string>
      device_of_rank;  ///< "NVIDIA H100 …, 0000:18:00.0", a rank each; empty on the host path
  std::string reason;  ///< for people: why this path
  std::string phases;  ///< how long its set-up took
};

/// The seam to lib/device, which this folder may not include.
class DeviceProvider {
 public:
  DeviceProvider() = default;
  DeviceProvider(const DeviceProvider&) = delete;
  DeviceProvider& operator=(const DeviceProvider&) = delete;
  virtual ~DeviceProvider() = default;

  /// Fills in what this rank tells the others of its devices.
  virtual void describe(rendezvous::Card& card) = 0;
  /// Collective: all ranks come to the same path. With `required`, Error{usage} where the device
  /// path can't be.
  virtual DevicePath open(control::Plane& plane, Backend& host, bool required,
                          std::chrono::nanoseconds timeout) = 0;
};

/// For a communicator that is to use host memory only.
class NoDevices final : public DeviceProvider {
 public:
  void describe(rendezvous::Card& card) override { card.no_device_because = "not looked for"; }
  DevicePath open(control::Plane&, Backend&, bool, std::chrono::nanoseconds) override {
    return {.reason = "asked for"};
  }
};

}  // namespace tutti
