#include "device/prewarm.hpp"

#include <memory>
#include <mutex>
#include <optional>

#include "base/quiet_thread.hpp"
#include "device/context.hpp"
#include "device/library.hpp"
#include "launch/place.hpp"
#include "tutti/error.hpp"

namespace tutti::device {

struct Prewarm::State {
  std::mutex mutex;
  bool unwanted = false;
  std::unique_ptr<Context> context;
};

namespace {

/// The device that the rank will choose (agreement.hpp); empty where there is none for it.
std::optional<int> device_of(const CudaCalls& cuda, int local_rank) {
  int count = 0;
  if (cuda.init(0) != cuda_success || cuda.device_count(&count) != cuda_success || count == 0) {
    return std::nullopt;
  }
  return local_rank % count;
}

}  // namespace

Prewarm::Prewarm(int local_rank) : state_(std::make_shared<State>()) {
  start_quiet_thread([state = state_, local_rank] {
    const auto cuda = std::make_shared<const Library<CudaCalls>>(load_cuda());
    if (!cuda->usable()) return;
    const auto device = device_of(cuda->calls, local_rank);
    if (!device) return;
    std::unique_ptr<Context> context;
    try {
      context = std::make_unique<Context>(cuda, *device);
    } catch (const Error&) {
      return;
    }
    static_cast<void>(load_nccl());
    const std::lock_guard lock(state->mutex);
    if (!state->unwanted) state->context.swap(context);
  }).detach();
}

Prewarm::~Prewarm() {
  const std::lock_guard lock(state_->mutex);
  state_->unwanted = true;
  state_->context.reset();
}

std::unique_ptr<Prewarm> Prewarm::from(const EnvironmentMap& environment) {
  try {
    const auto claim = launch::read_launcher(environment);
    if (claim.local_rank) return std::make_unique<Prewarm>(*claim.local_rank);
  } catch (const Error&) {
    // The communicator will say so.
  }
  return nullptr;
}

}  // namespace tutti::device
