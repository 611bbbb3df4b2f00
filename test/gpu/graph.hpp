#pragma once

#include <string>

#include "device/device_memory.hpp"
#include "tutti/communicator.hpp"

namespace tutti::gpu_test {

/// Captures what is queued on a stream, as long as it lives, and can replay it from then on.
/// Throws std::runtime_error where CUDA refuses.
class Capture {
 public:
  explicit Capture(void* stream);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture();

  /// Ends the capture.
  void end();
  /// Queues all of it on the stream.
  void replay();

 private:
  void* stream_;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

/// Captures several operations, replays them some times, and compares; empty if all is right.
/// Collective, on the NCCL path.
[[nodiscard]] std::string check_graph(Communicator& communicator, device::DeviceMemory& memory);

}  // namespace tutti::gpu_test
