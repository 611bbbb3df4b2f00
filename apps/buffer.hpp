#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "job_session.hpp"

namespace tutti::app {

/// Memory that an operation works on: host memory, and on the device path its image on the rank's
/// device.
class Buffer {
 public:
  /// Host memory is from Communicator::allocate() if `allocated`. Throws Error{system} where memory
  /// is too small.
  Buffer(JobSession& job, std::size_t bytes, bool allocated);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  /// To fill or to check, between upload() and download().
  [[nodiscard]] std::span<std::byte> host() { return host_; }
  /// What the operation gets: the device's address on the device path, else the host's.
  [[nodiscard]] void* data() { return device_ != nullptr ? device_ : host_.data(); }
  /// Copies to the device and back; nothing on the host path.
  void upload();
  void download();

 private:
  std::shared_ptr<device::DeviceMemory> memory_;  ///< outlives the job's end; null on the host path
  std::vector<std::byte> own_;
  Allocation<std::byte> allocated_;
  std::span<std::byte> host_;  ///< one of the two
  void* device_ = nullptr;
};

}  // namespace tutti::app
