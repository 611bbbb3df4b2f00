#include "device/prewarm.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "base/keep_mapped.hpp"
#include "device/context.hpp"
#include "device/library.hpp"
#include "launch/place.hpp"
#include "tutti/error.hpp"

namespace tutti::device {

struct Prewarm::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  bool unwanted = false;
  std::unique_ptr<Context> context;
};

namespace {

/// The device that the rank will choose (agreement.hpp); empty if there is none for it.
std::optional<int> device_of(const CudaCalls& cuda, int local_rank) {
  int count = 0;
  if (cuda.init(0) != cuda_success || cuda.device_count(&count) != cuda_success || count == 0) {
    return std::nullopt;
  }
  return local_rank % count;
}

/// Null on failure.
std::unique_ptr<Context> make_context(int local_rank) {
  const auto cuda = std::make_shared<const Library<CudaCalls>>(load_cuda());
  if (!cuda->usable()) return nullptr;
  const auto device = device_of(cuda->calls, local_rank);
  if (!device) return nullptr;
  try {
    return std::make_unique<Context>(cuda, *device);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

Prewarm::Prewarm(int local_rank) : state_(std::make_shared<State>()) {
  try {
    start_abandoned_thread("to warm up the device", [state = state_, local_rank] {
      auto context = make_context(local_rank);
      if (context) static_cast<void>(load_nccl());
      const std::lock_guard lock(state->mutex);
      if (!state->unwanted) state->context.swap(context);
      state->over = true;
      state->changed.notify_all();
    });
  } catch (const Error&) {
    state_->over = true;  // affects speed only
  }
}

void Prewarm::wait(Deadline deadline) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, deadline.remaining(), [this] { return state_->over; });
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
    // The communicator will report it.
  }
  return nullptr;
}

}  // namespace tutti::device
