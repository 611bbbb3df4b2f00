#pragma once

#include <cstddef>

#include "device/library.hpp"

namespace tutti::device {

/// Memory of one device, for programs that do not use CUDA themselves. Makes the device current in
/// the calling thread. Throws Error{system}.
class DeviceMemory {
 public:
  explicit DeviceMemory(int device_index);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  [[nodiscard]] void* allocate(std::size_t bytes);
  void free(void* address) noexcept;
  void copy_to_device(void* to, const void* from, std::size_t bytes);
  void copy_to_host(void* to, const void* from, std::size_t bytes);
  void copy_on_device(void* to, const void* from, std::size_t bytes);
  /// A stream of its own; lives as long as this object.
  [[nodiscard]] void* stream() const { return stream_; }

 private:
  void check(CudaResult result, const char* doing) const;

  Library<CudaCalls> cuda_;
  CudaDevice device_ = 0;
  CudaStream stream_ = nullptr;
};

}  // namespace tutti::device
