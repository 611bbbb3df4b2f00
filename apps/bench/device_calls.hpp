#pragma once

#include <memory>

#include "device/library.hpp"

namespace tutti::app::bench {

/// CUDA driver functions that the benchmark needs in addition to the library's table: events and
/// graphs.
class DeviceCalls {
 public:
  /// Throws Error{system} if there is no driver.
  DeviceCalls();

  /// Blocks until all work queued on `stream` has completed.
  void wait_for(void* stream) const;

  /// An instantiated CUDA graph. record() creates it.
  class Graph {
   public:
    Graph(const DeviceCalls& calls, void* executable) : calls_(calls), executable_(executable) {}
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph();
    void launch(void* stream) const;

   private:
    const DeviceCalls& calls_;
    void* executable_;
  };
  /// Captures the work that `queue_calls` queues on `stream`. The stream must be idle. Throws
  /// Error{system}, also if the driver is older than CUDA 11.4.
  template <class QueueCalls>
  [[nodiscard]] std::unique_ptr<Graph> record(void* stream, QueueCalls queue_calls) const {
    begin_recording(stream);
    queue_calls();
    return end_recording(stream);
  }

 private:
  using Result = device::CudaResult;

  void begin_recording(void* stream) const;
  [[nodiscard]] std::unique_ptr<Graph> end_recording(void* stream) const;
  void check(Result result, const char* doing) const;

  device::Library<device::CudaCalls> cuda_;
  Result (*begin_capture_)(void* stream, int mode) = nullptr;
  Result (*end_capture_)(void* stream, void** graph) = nullptr;
  Result (*instantiate_)(void** executable, void* graph, unsigned long long flags) = nullptr;
  Result (*launch_)(void* executable, void* stream) = nullptr;
  Result (*destroy_executable_)(void* executable) = nullptr;
  Result (*destroy_graph_)(void* graph) = nullptr;
};

}  // namespace tutti::app::bench
