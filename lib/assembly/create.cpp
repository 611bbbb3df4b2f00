#include <fmt/format.h>

#include "communicator/state.hpp"
#include "device/provider.hpp"

// Where the pieces are put together: the only place that knows both the communicator and the
// devices.
namespace tutti {
namespace {

/// The device path has a log of its own: it logs from its own threads, and before there is a job.
device::Provider::Settings device_settings(const Options& options, const Environment& environment) {
  auto log = std::make_shared<Log>(environment.log_level, options.log);
  return {.log = log,
          .on_stuck =
              [log, tell = options.on_stuck](const Error& error) {
                if (tell) return tell(error);
                log->warning(
                    fmt::format("NCCL did not return after ncclCommAbort; end this process with "
                                "SIGKILL: {}",
                                error.sentence()));
              },
          .path = environment.device_path,
          .device = options.device,
          .tuning_file = environment.tuning_file};
}

}  // namespace

Communicator Communicator::create(Bootstrap& bootstrap, const Options& options) {
  const auto map = current_environment();
  const auto environment = settings_for(options, map);
  std::shared_ptr<DeviceProvider> devices;
  if (environment.backend == BackendChoice::host) {
    devices = std::make_shared<NoDevices>();
  } else {
    auto cuda = device::load_cuda();
    // Without the CUDA driver there is no device for NCCL, and it takes a millisecond to load.
    auto nccl =
        cuda.usable()
            ? device::load_nccl()
            : device::Library<device::NcclCalls>{.missing = "not looked for without a CUDA driver"};
    devices = std::make_shared<device::Provider>(std::move(cuda), std::move(nccl),
                                                 device_settings(options, environment));
  }
  auto job = std::make_shared<Job>(bootstrap, options, map, std::move(devices));
  return Communicator(std::make_unique<State>(std::move(job), bootstrap));
}

std::chrono::nanoseconds setup_timeout(const Options& options) {
  return settings_for(options, current_environment()).timeout;
}

}  // namespace tutti
