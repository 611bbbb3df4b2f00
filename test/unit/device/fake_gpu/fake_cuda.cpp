// A CUDA driver without a device: libcuda.so.1 for tests.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fake_gpu.hpp"
#include "fake_kernels.hpp"

namespace fake_gpu {

int setting(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

namespace {

constexpr int success = 0;
constexpr int invalid_value = 1;
constexpr int out_of_memory = 2;
constexpr int peer_access_unsupported = 217;
constexpr int no_device = 100;
constexpr int not_ready = 600;
constexpr int capture_unsupported = 900;
constexpr int captured_event = 907;

struct Allocation {
  std::size_t bytes = 0;
  std::byte* alias = nullptr;
  int device = 0;
  bool pinned = false;
  int file = -1;  ///< that other processes map, for device memory
};

/// What cuIpcGetMemHandle puts into a handle.
struct Export {
  int pid;
  int file;
  std::size_t bytes;
};
struct IpcHandle {
  char bytes[64];
};
static_assert(sizeof(Export) <= sizeof(IpcHandle));

struct Graph {
  std::vector<std::function<void()>> work;
};

/// Runs its work in order, in a thread of its own.
class Stream {
 public:
  void enqueue(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (graph_) {
      graph_->work.push_back(std::move(work));
      return;
    }
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    queue_.push_back(std::move(work));
    ++unfinished_;
    changed_.notify_all();
  }
  bool is_done() {
    const std::lock_guard lock(mutex_);
    return unfinished_ == 0;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return unfinished_ == 0; });
  }
  bool is_capturing() {
    const std::lock_guard lock(mutex_);
    return graph_ != nullptr;
  }
  void begin_capture() {
    const std::lock_guard lock(mutex_);
    graph_ = std::make_shared<Graph>();
  }
  std::shared_ptr<Graph> end_capture() {
    const std::lock_guard lock(mutex_);
    return std::move(graph_);
  }
  ~Stream() {
    if (thread_.joinable()) thread_.detach();
  }
  [[nodiscard]] unsigned long long id() const { return id_; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      const auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      const int delay = setting("FAKE_GPU_DELAY_US", 0);
      if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
      work();
      lock.lock();
      --unfinished_;
      changed_.notify_all();
    }
  }
  static unsigned long long next_id() {
    static std::atomic<unsigned long long> latest{0};
    return ++latest;
  }
  const unsigned long long id_ = next_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::size_t unfinished_ = 0;
  std::shared_ptr<Graph> graph_;
  std::thread thread_;
};

struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t reached = 0;
  bool captured = false;
};

class Machine {
 public:
  Machine() {
    const int there = setting("FAKE_GPU_DEVICES", 4);
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) {
      for (int device = 0; device < there; ++device) devices.push_back(device);
      return;
    }
    std::string text(visible);
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find(',', begin), text.size());
      const int device = std::atoi(text.substr(begin, end - begin).c_str());
      if (device >= there) break;
      devices.push_back(device);
      begin = end + 1;
    }
  }

  std::vector<int> devices;  ///< device numbers of the visible devices
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> blocks;
  std::map<int, int> retained;
  Stream default_stream;
  std::atomic<int> capturing{0};
  std::atomic<int> kernels{0};  ///< queued or running
};

/// Never destroyed: its threads run until the process ends.
Machine& machine() {
  static auto* const made = new Machine;
  return *made;
}

thread_local void* current = nullptr;

void* context_of(int device) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(0x1000 + device));
}

Stream& stream_of(void* stream) {
  return stream == nullptr ? machine().default_stream : *static_cast<Stream*>(stream);
}

const Allocation* find_block(std::uintptr_t address, std::uintptr_t& base) {
  auto after = machine().blocks.upper_bound(address);
  if (after == machine().blocks.begin()) return nullptr;
  --after;
  base = after->first;
  return address < base + after->second.bytes ? &after->second : nullptr;
}

/// Maps `file` twice: where the program sees it, without access, and where the fakes access it.
int map(std::uintptr_t& address, std::size_t bytes, int file) {
  void* const seen = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  void* const alias = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (seen == MAP_FAILED || alias == MAP_FAILED) return out_of_memory;
  address = reinterpret_cast<std::uintptr_t>(seen);
  const std::lock_guard lock(machine().mutex);
  const auto device = static_cast<int>(reinterpret_cast<std::uintptr_t>(current) - 0x1000);
  machine().blocks[address] = {bytes, static_cast<std::byte*>(alias), device, false, file};
  return success;
}

int allocate(std::uintptr_t& address, std::size_t bytes) {
  if (current == nullptr || bytes == 0) return invalid_value;
  const int file = ::memfd_create("fake device memory", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return out_of_memory;
  return map(address, bytes, file);
}

int release(std::uintptr_t address) {
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().blocks.find(address);
  if (found == machine().blocks.end() || found->second.pinned) return invalid_value;
  ::munmap(reinterpret_cast<void*>(address), found->second.bytes);
  ::munmap(found->second.alias, found->second.bytes);
  ::close(found->second.file);
  machine().blocks.erase(found);
  return success;
}

int copy(void* to, const void* from, std::size_t bytes, void* stream) {
  if (current == nullptr) return invalid_value;
  stream_of(stream).enqueue(
      [to, from, bytes] { std::memcpy(fake_gpu_alias(to), fake_gpu_alias(from), bytes); });
  return success;
}

void* pointer(unsigned long long address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

extern "C" {

void* fake_gpu_alias(const void* address) {
  const std::lock_guard lock(machine().mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  std::uintptr_t base = 0;
  const auto* const block = find_block(number, base);
  if (block == nullptr || block->pinned) return const_cast<void*>(address);
  return block->alias + (number - base);
}

int fake_gpu_current_device() {
  return current == nullptr ? 0
                            : static_cast<int>(reinterpret_cast<std::uintptr_t>(current) - 0x1000);
}

void fake_gpu_enqueue(void* stream, const std::function<void()>* work) {
  stream_of(stream).enqueue(*work);
}

int cuInit(unsigned) {
  return machine().devices.empty() ? no_device : success;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(machine().devices.size());
  return success;
}
int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= static_cast<int>(machine().devices.size())) return invalid_value;
  *device = ordinal;
  return success;
}
int cuDeviceGetName(char* name, int length, int device) {
  const char* const chosen = std::getenv("FAKE_GPU_NAME");
  std::snprintf(name, static_cast<std::size_t>(length), "%s%s",
                chosen == nullptr ? "Fake GPU" : chosen,
                setting("FAKE_GPU_MIG", 0) != 0 ? " MIG 1g" : "");
  return device < 0 ? invalid_value : success;
}
int cuDeviceGetUuid_v2(char* uuid, int device) {
  std::memset(uuid, machine().devices.at(static_cast<std::size_t>(device)), 16);
  return success;
}
int cuDeviceGetUuid(char* uuid, int device) {
  return cuDeviceGetUuid_v2(uuid, device);
}
int cuDeviceGetPCIBusId(char* bus_id, int length, int device) {
  std::snprintf(bus_id, static_cast<std::size_t>(length), "0000:%02x:00.0",
                static_cast<unsigned>(machine().devices.at(static_cast<std::size_t>(device)) + 1));
  return success;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 122 ? 1 : 0;
  return success;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && (setting("FAKE_GPU_ISLAND", -1) != device &&
                            setting("FAKE_GPU_ISLAND", -1) != peer)
             ? 1
             : 0;
  return success;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (setting("FAKE_GPU_CONTEXT_FAILS", 0) != 0) return out_of_memory;
  const std::lock_guard lock(machine().mutex);
  ++machine().retained[device];
  *context = context_of(device);
  return success;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  const std::lock_guard lock(machine().mutex);
  if (--machine().retained[device] < 0) std::abort();
  return success;
}
int cuCtxSetCurrent(void* context) {
  current = context;
  return success;
}
int cuCtxGetCurrent(void** context) {
  *context = current;
  return success;
}

int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
  if (machine().capturing != 0) return capture_unsupported;
  std::uintptr_t made = 0;
  const int result = allocate(made, bytes);
  *address = made;
  return result;
}
int cuMemFree_v2(unsigned long long address) {
  if (machine().capturing != 0) return capture_unsupported;
  // Like a driver's, which waits for the device.
  for (std::uint32_t turn = 0; machine().kernels != 0;) pause(++turn);
  return release(address);
}
int cuMemAllocAsync(unsigned long long* address, std::size_t bytes, void*) {
  std::uintptr_t made = 0;
  const int result = allocate(made, bytes);
  *address = made;
  return result;
}
int cuMemFreeAsync(unsigned long long address, void* stream) {
  // Memory that a graph uses must stay allocated for replays.
  if (!stream_of(stream).is_capturing()) stream_of(stream).enqueue([address] { release(address); });
  return success;
}
int cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  if (current == nullptr || machine().capturing != 0) return invalid_value;
  *address = std::malloc(bytes);
  const std::lock_guard lock(machine().mutex);
  machine().blocks[reinterpret_cast<std::uintptr_t>(*address)] = {
      bytes, static_cast<std::byte*>(*address), 0, true, -1};
  return success;
}
int cuMemFreeHost(void* address) {
  {
    const std::lock_guard lock(machine().mutex);
    if (machine().blocks.erase(reinterpret_cast<std::uintptr_t>(address)) == 0)
      return invalid_value;
  }
  std::free(address);
  return success;
}
int cuPointerGetAttributes(unsigned count, const int* attributes, void** values,
                           unsigned long long address) {
  const std::lock_guard lock(machine().mutex);
  std::uintptr_t base = 0;
  const auto* const block = find_block(address, base);
  for (unsigned i = 0; i < count; ++i) {
    unsigned value = 0;
    if (attributes[i] == 2) value = block == nullptr ? 0U : block->pinned ? 1U : 2U;
    if (attributes[i] == 9 && block != nullptr) value = static_cast<unsigned>(block->device);
    std::memcpy(values[i], &value, sizeof value);
  }
  return success;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes, void* stream) {
  return copy(pointer(to), from, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, void* stream) {
  return copy(to, pointer(from), bytes, stream);
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, std::size_t bytes,
                         void* stream) {
  return copy(pointer(to), pointer(from), bytes, stream);
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, std::size_t bytes, void* stream) {
  stream_of(stream).enqueue([=] { std::memset(fake_gpu_alias(pointer(to)), value, bytes); });
  return success;
}

int cuStreamCreate(void** stream, unsigned) {
  if (current == nullptr) return invalid_value;
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
int cuGetErrorString(int result, const char** text) {
  *text = result == out_of_memory   ? "out of memory"
          : result == no_device     ? "no CUDA-capable device is detected"
          : result == invalid_value ? "invalid argument"
                                    : "an error";
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

int cuIpcGetMemHandle(Export* handle, unsigned long long address) {
  const std::lock_guard lock(machine().mutex);
  const auto found = machine().blocks.find(address);
  if (found == machine().blocks.end() || found->second.pinned) return invalid_value;
  *handle = {::getpid(), found->second.file, found->second.bytes};
  return success;
}
int cuIpcOpenMemHandle_v2(unsigned long long* address, IpcHandle handle, unsigned) {
  if (setting("FAKE_GPU_IPC", 0) == 0) return peer_access_unsupported;
  Export made{};
  std::memcpy(&made, handle.bytes, sizeof made);
  const auto path = "/proc/" + std::to_string(made.pid) + "/fd/" + std::to_string(made.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return invalid_value;
  std::uintptr_t mapped = 0;
  const int result = map(mapped, made.bytes, file);
  *address = mapped;
  return result;
}
int cuIpcCloseMemHandle(unsigned long long address) {
  return release(address);
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
        kernel(call,
               Processor{static_cast<int>(channel), static_cast<int>(channels), thread, &block});
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
