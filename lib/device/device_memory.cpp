#include "device/device_memory.hpp"

#include <fmt/format.h>

#include "device/inventory.hpp"
#include "tutti/error.hpp"

namespace tutti::device {
DeviceMemory::DeviceMemory(int device_index) : cuda_(load_cuda()) {
  const auto& calls = cuda_.calls;
  if (!cuda_.usable()) throw Error(ErrorCode::system, "no CUDA driver: " + cuda_.missing);
  CudaContext context = nullptr;
  check(calls.init(0), "initializing CUDA");
  check(calls.device_get(&device_, device_index), "choosing the device");
  check(calls.retain_primary_context(&context, device_), "retaining the CUDA context");
  check(calls.set_context(context), "setting the current device");
  check(calls.create_stream(&stream_, non_blocking_stream), "creating a stream");
}

DeviceMemory::~DeviceMemory() {
  cuda_.calls.destroy_stream(stream_);
  cuda_.calls.release_primary_context(device_);
}

void* DeviceMemory::allocate(std::size_t bytes) {
  DeviceAddress address = 0;
  check(cuda_.calls.allocate(&address, bytes), "allocating device memory");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA returns a number
  return reinterpret_cast<void*>(address);
}

void DeviceMemory::free(void* address) noexcept {
  cuda_.calls.free(device_address(address));
}

void DeviceMemory::copy_to_device(void* to, const void* from, std::size_t bytes) {
  check(cuda_.calls.copy_to_device(device_address(to), from, bytes, stream_),
        "copying to the device");
  check(cuda_.calls.synchronize_stream(stream_), "copying to the device");
}

void DeviceMemory::copy_to_host(void* to, const void* from, std::size_t bytes) {
  check(cuda_.calls.copy_to_host(to, device_address(from), bytes, stream_), "copying to the host");
  check(cuda_.calls.synchronize_stream(stream_), "copying to the host");
}

void DeviceMemory::copy_on_device(void* to, const void* from, std::size_t bytes) {
  check(cuda_.calls.copy_on_device(device_address(to), device_address(from), bytes, stream_),
        "copying on the device");
  check(cuda_.calls.synchronize_stream(stream_), "copying on the device");
}

void DeviceMemory::check(CudaResult result, const char* doing) const {
  if (result == cuda_success) return;
  throw Error(ErrorCode::system,
              fmt::format("{} failed: {}", doing, cuda_error_text(cuda_.calls, result)));
}

}  // namespace tutti::device
