#include "communicator/state.hpp"
#include "device/provider.hpp"

// Where the pieces are put together: the only place that knows both the communicator and the
// devices.
namespace tutti {

Communicator Communicator::create(Bootstrap& bootstrap, const Options& options) {
  const auto environment = current_environment();
  if (settings_for(options, environment).backend == BackendChoice::host) {
    NoDevices none;
    return Communicator(std::make_unique<State>(bootstrap, options, environment, none));
  }
  device::Provider devices(device::load_cuda(), device::load_nccl());
  return Communicator(std::make_unique<State>(bootstrap, options, environment, devices));
}

std::chrono::nanoseconds setup_timeout(const Options& options) {
  return settings_for(options, current_environment()).timeout;
}

}  // namespace tutti
