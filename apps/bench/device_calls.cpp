#include "device_calls.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "device/inventory.hpp"
#include "tutti/error.hpp"

namespace tutti::app::bench {
namespace {

/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may use CUDA during the capture.
constexpr int capture_this_thread = 1;

template <class Function>
void look_up(void* library, Function& function, const char* symbol) {
  if (library != nullptr) function = reinterpret_cast<Function>(::dlsym(library, symbol));
}

}  // namespace

DeviceCalls::DeviceCalls() : cuda_(device::load_cuda()) {
  if (!cuda_.usable()) throw Error(ErrorCode::system, "no CUDA driver: " + cuda_.missing);
  auto* const library = cuda_.handle.get();
  look_up(library, begin_capture_, "cuStreamBeginCapture_v2");
  look_up(library, end_capture_, "cuStreamEndCapture");
  look_up(library, instantiate_, "cuGraphInstantiateWithFlags");
  look_up(library, launch_, "cuGraphLaunch");
  look_up(library, destroy_executable_, "cuGraphExecDestroy");
  look_up(library, destroy_graph_, "cuGraphDestroy");
}

void DeviceCalls::wait_for(void* stream) const {
  check(cuda_.calls.synchronize_stream(stream), "waiting for the stream");
}

void DeviceCalls::begin_recording(void* stream) const {
  if (begin_capture_ == nullptr || instantiate_ == nullptr) {
    throw Error(ErrorCode::usage, "--graph needs a driver of CUDA 11.4 or later");
  }
  check(begin_capture_(stream, capture_this_thread), "capturing a CUDA graph");
}

std::unique_ptr<DeviceCalls::Graph> DeviceCalls::end_recording(void* stream) const {
  void* graph = nullptr;
  void* executable = nullptr;
  check(end_capture_(stream, &graph), "capturing a CUDA graph");
  const auto result = instantiate_(&executable, graph, 0);
  destroy_graph_(graph);
  check(result, "instantiating a CUDA graph");
  return std::make_unique<Graph>(*this, executable);
}

void DeviceCalls::check(Result result, const char* doing) const {
  if (result == device::cuda_success) return;
  throw Error(ErrorCode::system,
              fmt::format("{} failed: {}", doing, device::cuda_error_text(cuda_.calls, result)));
}

DeviceCalls::Graph::~Graph() {
  calls_.destroy_executable_(executable_);
}

void DeviceCalls::Graph::launch(void* stream) const {
  calls_.check(calls_.launch_(executable_, stream), "launching a CUDA graph");
}

}  // namespace tutti::app::bench
