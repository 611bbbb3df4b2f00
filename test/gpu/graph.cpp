#include "graph.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "cases.hpp"

namespace tutti::gpu_test {
namespace {

/// Driver calls that the library does not use.
template <class... Arguments>
void call(const char* name, Arguments... arguments) {
  static void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  void* const address = driver == nullptr ? nullptr : ::dlsym(driver, name);
  if (address == nullptr) throw std::runtime_error(fmt::format("the driver has no {}", name));
  const int result = reinterpret_cast<int (*)(Arguments...)>(address)(arguments...);
  if (result != 0) throw std::runtime_error(fmt::format("{} failed: {}", name, result));
}

constexpr int capture_mode_global = 0;

std::int32_t value_of(const DeviceBuffer& buffer, std::size_t index) {
  std::int32_t value = 0;
  std::memcpy(&value, buffer.download().data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

Capture::Capture(void* stream) : stream_(stream) {
  call("cuStreamBeginCapture_v2", stream_, capture_mode_global);
}

Capture::~Capture() {
  try {
    end();
    // ncclCommDestroy waits until the graphs with the communicator's calls are destroyed.
    if (executable_ != nullptr) call("cuGraphExecDestroy", executable_);
    call("cuGraphDestroy", graph_);
  } catch (const std::exception&) {
    // The error of a failed capture has been reported already.
  }
}

void Capture::end() {
  if (graph_ == nullptr) call("cuStreamEndCapture", stream_, &graph_);
}

void Capture::replay() {
  end();
  if (executable_ == nullptr) {
    call("cuGraphInstantiateWithFlags", &executable_, graph_, 0ULL);
  }
  call("cuGraphLaunch", executable_, stream_);
}

std::string check_graph(Communicator& communicator, device::DeviceMemory& memory) {
  const int size = communicator.size();
  const auto ranks = static_cast<std::size_t>(size);
  const Stream stream(memory.stream());
  DeviceBuffer one(memory, 4);
  DeviceBuffer all(memory, 4 * ranks);
  DeviceBuffer exchanged(memory, 4 * ranks);
  const device_span<std::int32_t> value(reinterpret_cast<std::int32_t*>(one.data()), 1);
  const device_span<std::int32_t> values(reinterpret_cast<std::int32_t*>(all.data()), ranks);
  const device_span<std::int32_t> others(reinterpret_cast<std::int32_t*>(exchanged.data()), ranks);
  const auto start = [&] {
    one.upload({std::byte(communicator.rank() + 1), std::byte{0}, std::byte{0}, std::byte{0}});
  };
  const auto queue = [&] {
    communicator.all_reduce(in_place, value, sum, {.stream = stream});
    communicator.all_gather(value, values, {.stream = stream});
    communicator.all_to_all(values, others, {.stream = stream});
    communicator.fan_out(value, size - 1, {.stream = stream});
    communicator.start_all_reduce(in_place, value, max, {.stream = stream}).wait(stream);
  };
  // Once outside the capture: NCCL connects the ranks in the first call.
  start();
  queue();
  communicator.synchronize(stream);

  start();
  Capture capture(memory.stream());
  queue();
  capture.end();
  constexpr int replays = 3;
  for (int i = 0; i < replays; ++i) capture.replay();
  communicator.synchronize(stream);
  // Each replay sums over all ranks, so all have the same value afterwards.
  std::int32_t due = size * (size + 1) / 2;
  for (int i = 1; i < replays; ++i) due *= size;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto found = value_of(exchanged, rank);
    if (found != due) return fmt::format("after replays {} where {} is due", found, due);
  }
  const auto found = value_of(one, 0);
  return found == due ? std::string() : fmt::format("{} where {} is due", found, due);
}

}  // namespace tutti::gpu_test
