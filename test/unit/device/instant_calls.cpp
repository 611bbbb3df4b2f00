#include "instant_calls.hpp"

#include <cstdlib>
#include <cstring>

namespace tutti::device::test {
namespace {

thread_local CudaContext current = nullptr;
int anything = 0;  // what handles point to

CudaResult write_text(const char* text, char* to, int length) {
  std::strncpy(to, text, static_cast<std::size_t>(length));
  return cuda_success;
}

}  // namespace

Library<CudaCalls> instant_cuda() {
  Library<CudaCalls> library;
  auto& calls = library.calls;
  calls.init = [](unsigned) { return cuda_success; };
  calls.device_count = [](int* count) { return *count = 1, cuda_success; };
  calls.device_get = [](CudaDevice* device, int ordinal) {
    return *device = ordinal, cuda_success;
  };
  calls.device_name = [](char* to, int length, CudaDevice) {
    return write_text("GPU", to, length);
  };
  calls.device_uuid = [](CudaUuid* uuid, CudaDevice) { return uuid->fill('u'), cuda_success; };
  calls.device_bus_id = [](char* to, int length, CudaDevice) {
    return write_text("0000:18:00.0", to, length);
  };
  calls.device_attribute = [](int* value, int, CudaDevice) { return *value = 9, cuda_success; };
  calls.retain_primary_context = [](CudaContext* context, CudaDevice) {
    return *context = &anything, cuda_success;
  };
  calls.release_primary_context = [](CudaDevice) { return cuda_success; };
  calls.set_context = [](CudaContext context) { return current = context, cuda_success; };
  calls.get_context = [](CudaContext* context) { return *context = current, cuda_success; };
  calls.allocate = [](DeviceAddress* address, std::size_t bytes) {
    return *address = reinterpret_cast<DeviceAddress>(std::malloc(bytes)), cuda_success;
  };
  calls.free = [](DeviceAddress address) {
    return std::free(reinterpret_cast<void*>(address)), cuda_success;
  };
  calls.allocate_pinned = [](void** address, std::size_t bytes, unsigned) {
    return *address = std::malloc(bytes), cuda_success;
  };
  calls.free_pinned = [](void* address) { return std::free(address), cuda_success; };
  calls.pointer_attributes = [](unsigned, int*, void** values, DeviceAddress) {
    *static_cast<unsigned*>(values[0]) = memory_device;
    *static_cast<unsigned*>(values[1]) = 0;
    *static_cast<int*>(values[2]) = 0;
    return cuda_success;
  };
  calls.copy_to_device = [](DeviceAddress, const void*, std::size_t, CudaStream) {
    return cuda_success;
  };
  calls.copy_to_host = [](void*, DeviceAddress, std::size_t, CudaStream) { return cuda_success; };
  calls.copy_on_device = [](DeviceAddress, DeviceAddress, std::size_t, CudaStream) {
    return cuda_success;
  };
  calls.create_stream = [](CudaStream* stream, unsigned) {
    return *stream = &anything, cuda_success;
  };
  calls.destroy_stream = [](CudaStream) { return cuda_success; };
  calls.query_stream = [](CudaStream) { return cuda_success; };
  calls.synchronize_stream = [](CudaStream) { return cuda_success; };
  calls.stream_is_capturing = [](CudaStream, int* status) {
    return *status = not_capturing, cuda_success;
  };
  calls.stream_wait_event = [](CudaStream, CudaEvent, unsigned) { return cuda_success; };
  calls.create_event = [](CudaEvent* event, unsigned) { return *event = &anything, cuda_success; };
  calls.destroy_event = [](CudaEvent) { return cuda_success; };
  calls.record_event = [](CudaEvent, CudaStream) { return cuda_success; };
  calls.query_event = [](CudaEvent) { return cuda_success; };
  return library;
}

Library<NcclCalls> instant_nccl() {
  Library<NcclCalls> library;
  auto& calls = library.calls;
  calls.get_version = [](int* version) { return *version = 22809, nccl_success; };
  calls.get_unique_id = [](NcclUniqueId*) { return nccl_success; };
  calls.init_rank = [](NcclComm* comm, int, NcclUniqueId, int) {
    return *comm = &anything, nccl_success;
  };
  calls.destroy = [](NcclComm) { return nccl_success; };
  calls.abort = [](NcclComm) { return nccl_success; };
  calls.get_async_error = [](NcclComm, NcclResult* result) {
    return *result = nccl_success, nccl_success;
  };
  calls.group_start = [] { return nccl_success; };
  calls.group_end = [] { return nccl_success; };
  calls.send = [](const void*, std::size_t, int, int, NcclComm, CudaStream) {
    return nccl_success;
  };
  calls.recv = [](void*, std::size_t, int, int, NcclComm, CudaStream) { return nccl_success; };
  calls.broadcast = [](const void*, void*, std::size_t, int, int, NcclComm, CudaStream) {
    return nccl_success;
  };
  calls.reduce = [](const void*, void*, std::size_t, int, int, int, NcclComm, CudaStream) {
    return nccl_success;
  };
  calls.all_reduce = [](const void*, void*, std::size_t, int, int, NcclComm, CudaStream) {
    return nccl_success;
  };
  calls.all_gather = [](const void*, void*, std::size_t, int, NcclComm, CudaStream) {
    return nccl_success;
  };
  calls.reduce_scatter = [](const void*, void*, std::size_t, int, int, NcclComm, CudaStream) {
    return nccl_success;
  };
  return library;
}

}  // namespace tutti::device::test
