#pragma once

#include <cstddef>

#include "communicator/backend.hpp"
#include "device/calls.hpp"

namespace tutti::device {

/// Puts operations on a stream by NCCL's calls: its own where it has them, groups of sends and
/// receives where not. Within a group all transfers run at once; one after another each would wait
/// for the one before.
class NcclQueue {
 public:
  struct Target {
    NcclComm comm = nullptr;
    int rank = 0;
    int size = 1;
    void* token = nullptr;  ///< one byte of device memory, for barriers
  };
  NcclQueue(const NcclCalls& nccl, Target target) : nccl_(nccl), target_(target) {}

  /// What `call` asks for is possible; its buffers are in device memory. all_to_all in place is not
  /// for this: every block would be read and overwritten at once.
  [[nodiscard]] NcclResult collective(const CheckedCollective& call, CudaStream stream) const;
  [[nodiscard]] NcclResult message(const Message& message, CudaStream stream) const;

 private:
  struct Blocks;
  struct Parts;
  [[nodiscard]] int operator_of(const CheckedCollective& call) const;
  [[nodiscard]] NcclResult exchange(const CheckedCollective& call, CudaStream stream) const;
  [[nodiscard]] NcclResult exchange(const Parts& parts) const;
  [[nodiscard]] NcclResult reduce_scatter_v(const CheckedCollective& call, CudaStream stream) const;
  template <class Action>
  [[nodiscard]] NcclResult grouped(Action action) const;

  const NcclCalls& nccl_;
  Target target_;
};

}  // namespace tutti::device
