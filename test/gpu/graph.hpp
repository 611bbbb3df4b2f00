#pragma once

#include <string>

#include "device/device_memory.hpp"
#include "tutti/communicator.hpp"

namespace tutti::gpu_test {

/// Captures the work on a stream until end(); replay() launches it. Throws std::runtime_error if
/// CUDA returns an error.
class Capture {
 public:
  explicit Capture(void* stream);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture();

  /// Ends the capture.
  void end();
  /// Launches the graph on the stream.
  void replay();

 private:
  void* stream_;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

/// Captures several operations, replays them and compares the results. Empty if correct.
/// Collective, on the NCCL path.
[[nodiscard]] std::string check_graph(Communicator& communicator, device::DeviceMemory& memory);

}  // namespace tutti::gpu_test
