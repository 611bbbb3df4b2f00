// The driver's memory, and copies.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fake_kernels.hpp"
#include "fake_machine.hpp"

namespace fake_gpu {
namespace {

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

/// Maps `file` twice: where the program sees it, without access, and where the fakes access it.
int map(std::uintptr_t& address, std::size_t bytes, int file) {
  void* const seen = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  void* const alias = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (seen == MAP_FAILED || alias == MAP_FAILED) return out_of_memory;
  address = reinterpret_cast<std::uintptr_t>(seen);
  const std::lock_guard lock(machine().mutex);
  const auto device =
      static_cast<int>(reinterpret_cast<std::uintptr_t>(current_context()) - 0x1000);
  machine().blocks[address] = {bytes, static_cast<std::byte*>(alias), device, false, file};
  return success;
}

int allocate(std::uintptr_t& address, std::size_t bytes) {
  if (current_context() == nullptr || bytes == 0) return invalid_value;
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
  if (current_context() == nullptr) return invalid_value;
  stream_of(stream).enqueue(
      [to, from, bytes] { std::memcpy(fake_gpu_alias(to), fake_gpu_alias(from), bytes); });
  return success;
}

}  // namespace

extern "C" {

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
  if (current_context() == nullptr || machine().capturing != 0) return invalid_value;
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

}  // extern "C"

}  // namespace fake_gpu
