#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "communicator/device_provider.hpp"
#include "device/agreement.hpp"
#include "device/context.hpp"
#include "device/library.hpp"
#include "device/setup_talk.hpp"
#include "device/unique_id.hpp"

namespace tutti::device {

/// The device path through the CUDA driver and NCCL, as far as they are there.
class Provider final : public DeviceProvider {
 public:
  struct Settings {
    std::shared_ptr<Log> log;  ///< null: no notes
    /// A call is stuck inside NCCL for good: its thread will not come back. From another thread.
    std::function<void(const Error&)> on_stuck;
  };

  /// With the libraries of this node, or those of a test.
  Provider(Library<CudaCalls> cuda, Library<NcclCalls> nccl, Settings settings);
  Provider(Library<CudaCalls> cuda, Library<NcclCalls> nccl)
      : Provider(std::move(cuda), std::move(nccl), Settings{}) {}

  void describe(rendezvous::PeerInfo& info) override;
  DevicePath open(control::Plane& plane, Backend& host, const BootstrapBroadcast& broadcast,
                  bool required, std::chrono::nanoseconds timeout) override;
  std::unique_ptr<Backend> open_group(control::Plane& plane, const control::Group& group,
                                      Backend& host, std::chrono::nanoseconds timeout) override;

 private:
  struct Opened {
    std::unique_ptr<Backend> backend;
    std::string phases;
  };
  void open_context(SetupTalk& talk, int index);
  [[nodiscard]] Opened open_nccl(control::Plane& plane, const control::Group& group,
                                 SetupTalk& talk, const Broadcast& broadcast);
  [[nodiscard]] std::unique_ptr<Backend> open_staged(control::Plane& plane,
                                                     const control::Group& group, Backend& host);
  [[nodiscard]] Opened open_best(control::Plane& plane, const control::Group& group, Backend& host,
                                 SetupTalk& talk, const Broadcast& broadcast);
  void warn(const control::Group& group, const std::string& text) const;

  std::shared_ptr<const Library<CudaCalls>> cuda_;
  std::shared_ptr<const Library<NcclCalls>> nccl_;
  Settings settings_;
  Path path_ = Path::host;
  bool required_ = false;
  std::string reason_;
  bool told_ = false;  ///< that buffers are staged
  std::shared_ptr<const Context> context_;
};

}  // namespace tutti::device
