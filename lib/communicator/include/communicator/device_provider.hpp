#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator/backend.hpp"
#include "control/call_history.hpp"
#include "control/failure_detector.hpp"
#include "control/group.hpp"
#include "control/status_exchange.hpp"
#include "rendezvous/peer_info.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/deadline.hpp"

namespace tutti {

/// A rank's device.
struct DeviceInfo {
  std::string name;    ///< "NVIDIA H100 80GB HBM3"
  std::string bus_id;  ///< "0000:18:00.0"
  std::string uuid;    ///< "5d1c9c3e-…"
};

/// The device path, or why there is none.
struct DevicePath {
  std::unique_ptr<Backend> backend;  ///< null on the host path
  int device = -1;                   ///< index among the devices that this process sees
  /// Buffers in device memory go through host memory, since NCCL can't serve.
  bool staged = false;
  std::vector<DeviceInfo> device_of_rank;  ///< empty on the host path
  std::string reason;                      ///< for people: why this path
  std::string phases;                      ///< how long its set-up took
};

/// Rank 0's bytes to all ranks of the job, by the bootstrap: in set-up only.
using BootstrapBroadcast = std::function<Bytes(const Bytes& of_rank_0, Deadline deadline)>;

/// The seam to lib/device, which this folder may not include. One for a job; it outlives all
/// backends that it has made.
class DeviceProvider {
 public:
  DeviceProvider() = default;
  DeviceProvider(const DeviceProvider&) = delete;
  DeviceProvider& operator=(const DeviceProvider&) = delete;
  virtual ~DeviceProvider() = default;

  /// Fills in what this rank tells the others of its devices.
  virtual void describe(rendezvous::PeerInfo& info) = 0;
  /// Collective over the job, whose host path is `host` and calls are `history`: all ranks come to
  /// the same path. With `required`, Error{usage} or Error{system} on all ranks where NCCL can't
  /// serve. `broadcast` is called once where NCCL can, on all ranks, and else not at all.
  virtual DevicePath open(control::FailureDetector& detector, control::StatusExchange& statuses,
                          const std::shared_ptr<control::CallHistory>& history, Backend& host,
                          const BootstrapBroadcast& broadcast, bool required,
                          std::chrono::nanoseconds timeout) = 0;
  /// Collective over the group of `history`, whose host path is `host`: the same path on the same
  /// device for a communicator of its own. Only where open() has made a device path.
  virtual std::unique_ptr<Backend> open_group(control::FailureDetector& detector,
                                              control::StatusExchange& statuses,
                                              const std::shared_ptr<control::CallHistory>& history,
                                              Backend& host, std::chrono::nanoseconds timeout) = 0;
};

/// For a communicator that is to use host memory only.
class NoDevices final : public DeviceProvider {
 public:
  void describe(rendezvous::PeerInfo& info) override { info.no_device_reason = "not looked for"; }
  DevicePath open(control::FailureDetector&, control::StatusExchange&,
                  const std::shared_ptr<control::CallHistory>&, Backend&, const BootstrapBroadcast&,
                  bool, std::chrono::nanoseconds) override {
    return {.reason = "asked for"};
  }
  std::unique_ptr<Backend> open_group(control::FailureDetector&, control::StatusExchange&,
                                      const std::shared_ptr<control::CallHistory>&, Backend&,
                                      std::chrono::nanoseconds) override {
    return nullptr;
  }
};

}  // namespace tutti
