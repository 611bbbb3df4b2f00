#pragma once

#include <cstddef>

#include "communicator/backend.hpp"
#include "device/calls.hpp"

namespace tutti::device {

/// Queues operations on a stream with NCCL's calls: its own collectives, or groups of sends and
/// receives. Transfers of a group run concurrently; outside a group each would wait for the
/// previous one.
class NcclQueue {
 public:
  struct Target {
    NcclComm comm = nullptr;
    int rank = 0;
    int size = 1;
    void* token = nullptr;  ///< one byte of device memory, for barriers
  };
  NcclQueue(const NcclCalls& nccl, Target target) : nccl_(nccl), target_(target) {}

  /// Requires valid arguments and buffers in device memory. Not for all_to_all in place, which
  /// would read and overwrite every block concurrently.
  [[nodiscard]] NcclResult collective(const CheckedCollective& call, CudaStream stream) const;
  [[nodiscard]] NcclResult message(const Message& message, CudaStream stream) const;
  /// In one group: none waits for another.
  [[nodiscard]] NcclResult messages(std::span<const Message> messages, CudaStream stream) const;

 private:
  struct Blocks;
  struct Parts;
  [[nodiscard]] int operator_of(const CheckedCollective& call) const;
  [[nodiscard]] NcclResult collective(const CheckedCollective& call, int op,
                                      CudaStream stream) const;
  [[nodiscard]] NcclResult premultiplied(const CheckedCollective& call, CudaStream stream) const;
  [[nodiscard]] NcclResult exchange(const CheckedCollective& call, CudaStream stream) const;
  [[nodiscard]] NcclResult exchange(const Parts& parts) const;
  [[nodiscard]] NcclResult reduce_scatter_v(const CheckedCollective& call, int op,
                                            CudaStream stream) const;
  template <class Action>
  [[nodiscard]] NcclResult grouped(Action action) const;

  const NcclCalls& nccl_;
  Target target_;
};

}  // namespace tutti::device
