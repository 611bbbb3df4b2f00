#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "communicator/device_provider.hpp"
#include "device/agreement.hpp"
#include "device/context.hpp"
#include "device/library.hpp"
#include "device/setup_exchange.hpp"
#include "device/unique_id.hpp"

namespace tutti::device::direct {
class ClosingStaging;
struct TuningSource;
}  // namespace tutti::device::direct

namespace tutti::device {

/// The backend for device memory through the CUDA driver and NCCL, if they are available.
class Provider final : public DeviceProvider {
 public:
  struct Settings {
    std::shared_ptr<Log> log;  ///< null: no messages
    /// Called from another thread when a call is blocked inside NCCL and can't be ended.
    std::function<void(const Error&)> on_stuck;
    DevicePathChoice path = DevicePathChoice::automatic;
    std::optional<int> device;  ///< index of the one to use; none: by the local rank
    std::string tuning_file;    ///< of `tutti tune`; empty: none
  };

  /// With this host's libraries, or those of a test.
  Provider(Library<CudaCalls> cuda, Library<NcclCalls> nccl, Settings settings);
  Provider(Library<CudaCalls> cuda, Library<NcclCalls> nccl)
      : Provider(std::move(cuda), std::move(nccl), Settings{}) {}

  void describe(rendezvous::PeerInfo& info) override;
  DevicePath open(control::FailureDetector& detector, control::StatusExchange& statuses,
                  const std::shared_ptr<control::CallHistory>& history, Backend& host,
                  const BootstrapBroadcast& broadcast, bool required,
                  std::chrono::nanoseconds timeout) override;
  std::unique_ptr<Backend> open_group(control::FailureDetector& detector,
                                      control::StatusExchange& statuses,
                                      const std::shared_ptr<control::CallHistory>& history,
                                      Backend& host, std::chrono::nanoseconds timeout) override;

 private:
  struct Opened {
    std::unique_ptr<Backend> backend;
    std::string phases;
  };
  void choose_device(rendezvous::PeerInfo& info) const;
  void open_context(SetupExchange& setup, int index);
  [[nodiscard]] Opened open_nccl(control::FailureDetector& detector,
                                 control::StatusExchange& statuses,
                                 const std::shared_ptr<control::CallHistory>& history,
                                 Backend& host, SetupExchange& setup, const Broadcast& broadcast);
  [[nodiscard]] std::unique_ptr<Backend> open_staged(
      control::FailureDetector& detector, const std::shared_ptr<control::CallHistory>& history,
      Backend& host);
  [[nodiscard]] Opened open_best(control::FailureDetector& detector,
                                 control::StatusExchange& statuses,
                                 const std::shared_ptr<control::CallHistory>& history,
                                 Backend& host, SetupExchange& setup, const Broadcast& broadcast);
  [[nodiscard]] direct::TuningSource tuning_source(const rendezvous::Peers& peers,
                                                   const control::Group& group);
  void warn(const control::Group& group, const std::string& text) const;

  std::shared_ptr<const Library<CudaCalls>> cuda_;
  std::shared_ptr<const Library<NcclCalls>> nccl_;
  Settings settings_;
  DeviceMode mode_ = DeviceMode::host;
  bool required_ = false;
  std::string reason_;
  bool warned_ = false;                    ///< has warned that buffers are staged
  bool tuning_warned_ = false;             ///< has warned that the tuning file is unusable
  std::vector<std::string> card_of_rank_;  ///< of the job
  std::shared_ptr<const Context> context_;
  std::shared_ptr<direct::ClosingStaging> closing_;
};

}  // namespace tutti::device
