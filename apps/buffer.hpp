#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "job_session.hpp"

namespace tutti::app {

/// A buffer of an operation: host memory and, on the device path, a device allocation of the same
/// size.
class Buffer {
 public:
  /// If `allocated`, the memory is from Communicator::allocate(), and on the device path from
  /// allocate_device(): then it is collective, and the ranks' buffers may differ in size. Throws
  /// Error{system} if the allocation fails.
  Buffer(JobSession& job, std::size_t bytes, bool allocated);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  /// Fill before upload(); check after download().
  [[nodiscard]] std::span<std::byte> host() { return host_; }
  /// The pointer that the operation gets: device memory on the device path, else host memory.
  [[nodiscard]] void* data() { return device_ != nullptr ? device_ : host_.data(); }
  /// Copies host to device, and device to host. Does nothing on the host path.
  void upload();
  void download();

 private:
  /// Must outlive the end of the job. Null on the host path.
  std::shared_ptr<device::DeviceMemory> memory_;
  std::vector<std::byte> own_;
  Allocation<std::byte> allocated_;
  std::span<std::byte> host_;  ///< points into one of the two
  DeviceAllocation<std::byte> allocated_on_device_;
  void* device_ = nullptr;
};

}  // namespace tutti::app
