#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "device/context.hpp"
#include "direct/path.hpp"
#include "nccl_call.hpp"

namespace tutti::preload {

/// Keeps the calls on a communicator in the order in which they were made, whatever their streams,
/// as NCCL does: those of the direct path and those that NCCL takes. The program orders graphs.
/// From one thread at a time, but for what says otherwise. The device must be current.
class StreamOrder {
 public:
  /// `path` must live as long.
  StreamOrder(std::shared_ptr<const device::Context> context, device::direct::DirectPath& path);
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;
  ~StreamOrder();

  /// Before a call: lets the stream wait for the earlier calls on others.
  [[nodiscard]] device::CudaResult before(CudaStream stream);
  /// Whether that call is captured in a graph.
  [[nodiscard]] bool is_in_graph() const { return capture_.has_value(); }
  /// After a call of the direct path.
  void after_served(CudaStream stream);
  /// After a call that NCCL has queued.
  void after_handed_on(CudaStream stream);

  // From another thread.
  /// Whether NCCL's calls outside of graphs are complete, of which after_handed_on() has been told.
  [[nodiscard]] bool are_handed_on_complete() const;
  /// Grows while they complete.
  [[nodiscard]] std::uint64_t handed_on_ended();

 private:
  [[nodiscard]] const device::CudaCalls& cuda() const { return context_->cuda(); }
  /// The capture that the stream is in; empty if it is in none.
  [[nodiscard]] std::optional<unsigned long long> capture_of(CudaStream stream) const;
  void record_in_graph(CudaStream stream, unsigned long long capture);

  std::shared_ptr<const device::Context> context_;
  device::direct::DirectPath& path_;
  std::optional<unsigned long long> capture_;  ///< of the latest call
  std::optional<unsigned long long> latest_stream_;
  device::CudaEvent handed_on_ = nullptr;  ///< behind the latest call that NCCL has taken
  std::atomic<bool> is_recorded_{false};
  /// Behind one that stays the same until it is complete, since later calls move the other event.
  device::CudaEvent sample_ = nullptr;
  std::atomic<bool> has_sample_{false};
  std::uint64_t samples_ended_ = 0;
  /// Behind the latest call in a graph.
  device::CudaEvent in_graph_ = nullptr;
  CudaStream graph_stream_ = nullptr;
  std::optional<unsigned long long> graph_capture_;
};

}  // namespace tutti::preload
