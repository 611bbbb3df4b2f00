// The driver's streams, events, graphs and kernels.
#include <algorithm>
#include <cstring>

#include "fake_kernels.hpp"
#include "fake_machine.hpp"

namespace fake_gpu {
namespace {

struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
  bool captured = false;
};

std::byte* find_memory(std::uint64_t address) {
  return static_cast<std::byte*>(fake_gpu_alias(pointer(address)));
}

}  // namespace

extern "C" {

int cuStreamCreate(void** stream, unsigned) {
  if (current_context() == nullptr) return invalid_value;
  *stream = new Stream;
  return success;
}
int cuStreamDestroy_v2(void*) {
  return success;  // its thread may still run
}
int cuStreamQuery(void* stream) {
  if (stream_of(stream).is_capturing()) return capture_unsupported;
  return stream_of(stream).is_done() ? success : not_ready;
}
int cuStreamSynchronize(void* stream) {
  if (stream_of(stream).is_capturing()) return capture_unsupported;
  stream_of(stream).wait();
  return success;
}
int cuStreamIsCapturing(void* stream, int* status) {
  *status = stream_of(stream).is_capturing() ? 1 : 0;
  return success;
}
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  stream_of(stream).enqueue([function, data] { function(data); });
  return success;
}
int cuStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void**,
                              const void**, std::size_t*) {
  *status = stream_of(stream).is_capturing() ? 1 : 0;
  *id = stream_of(stream).id();
  return success;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  static thread_local int own = 0;
  std::swap(own, *mode);
  return success;
}
int cuStreamBeginCapture_v2(void* stream, int) {
  ++machine().capturing;
  stream_of(stream).begin_capture();
  return success;
}
int cuStreamEndCapture(void* stream, void** graph) {
  --machine().capturing;
  *graph = new std::shared_ptr<Graph>(stream_of(stream).end_capture());
  return success;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = graph;
  return success;
}
int cuGraphLaunch(void* executable, void* stream) {
  const auto graph = *static_cast<std::shared_ptr<Graph>*>(executable);
  for (const auto& work : graph->work) stream_of(stream).enqueue(work);
  return success;
}
int cuGraphExecDestroy(void*) {
  return success;  // it may still run
}
int cuGraphDestroy(void*) {
  return success;
}
int cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return success;
}
int cuEventDestroy_v2(void*) {
  return success;  // queued work may still use it
}
int cuEventRecord(void* handle, void* stream) {
  auto* const event = static_cast<Event*>(handle);
  std::uint64_t mark = 0;
  {
    const std::lock_guard lock(event->mutex);
    mark = ++event->recorded;
    event->captured = stream_of(stream).is_capturing();
  }
  stream_of(stream).enqueue([event, mark] {
    const std::lock_guard lock(event->mutex);
    event->reached = std::max(event->reached, mark);
    event->changed.notify_all();
  });
  return success;
}
int cuEventQuery(void* handle) {
  auto* const event = static_cast<Event*>(handle);
  const std::lock_guard lock(event->mutex);
  if (event->captured) return captured_event;
  return event->reached >= event->recorded ? success : not_ready;
}
int cuEventSynchronize(void* handle) {
  auto* const event = static_cast<Event*>(handle);
  std::unique_lock lock(event->mutex);
  event->changed.wait(lock, [&] { return event->reached >= event->recorded; });
  return success;
}
int cuStreamWaitEvent(void* stream, void* handle, unsigned) {
  auto* const event = static_cast<Event*>(handle);
  std::uint64_t mark = 0;
  {
    const std::lock_guard lock(event->mutex);
    mark = event->recorded;
  }
  stream_of(stream).enqueue([event, mark] {
    std::unique_lock lock(event->mutex);
    event->changed.wait(lock, [&] { return event->reached >= mark; });
  });
  return success;
}
int cuStreamGetId(void* stream, unsigned long long* id) {
  *id = stream_of(stream).id();
  return success;
}
int cuStreamWaitValue64_v2(void* stream, unsigned long long address, unsigned long long value,
                           unsigned) {
  const auto* const word = static_cast<std::uint64_t*>(fake_gpu_alias(pointer(address)));
  stream_of(stream).enqueue([word, value] {
    for (std::uint32_t turn = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) < value;) pause(++turn);
  });
  return success;
}
int cuModuleLoadData(void** module, const void*) {
  *module = &machine();
  return success;
}
int cuModuleUnload(void*) {
  return success;
}
/// Functions are their names: never freed, like a driver's.
int cuModuleGetFunction(void** function, void*, const char* name) {
  *function = new std::string(name);
  return success;
}
int cuLaunchKernel(void* function, unsigned channels, unsigned, unsigned, unsigned, unsigned,
                   unsigned, unsigned, void* stream, void** arguments, void*) {
  const auto& name = *static_cast<const std::string*>(function);
  const auto kernel = find_kernel(name);
  if (!kernel) return invalid_value;
  auto call = *static_cast<const tutti::device::direct::Call*>(arguments[0]);
  const bool counted = !stream_of(stream).is_capturing();
  if (counted) ++machine().kernels;
  stream_of(stream).enqueue([=]() mutable {
    call.send = static_cast<const std::byte*>(fake_gpu_alias(call.send));
    call.recv = static_cast<std::byte*>(fake_gpu_alias(call.recv));
    for (int rank = 0; rank < call.size; ++rank) {
      call.staging[rank] = static_cast<std::byte*>(fake_gpu_alias(call.staging[rank]));
    }
    for (unsigned channel = 0; channel < channels; ++channel) {
      Block block;
      const auto run = [&](int thread) {
        kernel(call, Processor{static_cast<int>(channel), static_cast<int>(channels), thread,
                               &block, find_memory});
      };
      std::thread second([&] { run(1); });
      run(0);
      second.join();
    }
    if (counted) --machine().kernels;
  });
  return success;
}

}  // extern "C"

}  // namespace fake_gpu
