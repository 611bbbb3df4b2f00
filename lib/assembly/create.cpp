#include "communicator/state.hpp"
#include "device/provider.hpp"

// Where the pieces are put together: the only place that knows both the communicator and the
// devices.
namespace tutti {

Communicator Communicator::create(Bootstrap& bootstrap, const Options& options) {
  device::Provider devices(device::load_cuda(), device::load_nccl());
  return Communicator(std::make_unique<State>(bootstrap, options, current_environment(), devices));
}

std::chrono::nanoseconds setup_timeout(const Options& options) {
  return settings_for(options, current_environment()).timeout;
}

}  // namespace tutti
