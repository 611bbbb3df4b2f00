// A CUDA driver without a device: libcuda.so.1 for tests. Here its devices and contexts.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fake_machine.hpp"

namespace fake_gpu {

extern "C" {

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
  current_context() = context;
  return success;
}
int cuCtxGetCurrent(void** context) {
  *context = current_context();
  return success;
}
int cuGetErrorString(int result, const char** text) {
  *text = result == out_of_memory   ? "out of memory"
          : result == no_device     ? "no CUDA-capable device is detected"
          : result == invalid_value ? "invalid argument"
                                    : "an error";
  return success;
}

}  // extern "C"

}  // namespace fake_gpu
