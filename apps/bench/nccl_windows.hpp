#pragma once

#include <cstddef>
#include <string>

#include "device/library.hpp"

namespace tutti::app::bench {

/// Two buffers that NCCL allocates and registers as symmetric windows, with which it uses kernels
/// of its own (NCCL 2.27 and later).
class NcclWindows {
 public:
  NcclWindows(const device::Library<device::NcclCalls>& library, device::NcclComm comm);
  NcclWindows(const NcclWindows&) = delete;
  NcclWindows& operator=(const NcclWindows&) = delete;
  ~NcclWindows();

  /// Makes both buffers anew. Returns why this rank has none: "NCCL has no ncclMemAlloc". Empty if
  /// it has.
  [[nodiscard]] std::string allocate(std::size_t send_bytes, std::size_t recv_bytes);
  /// Collective, once all ranks have both buffers. Returns why they are not registered.
  [[nodiscard]] std::string add();
  /// Collective, where the buffers are registered.
  void release();

  [[nodiscard]] std::byte* send() const { return static_cast<std::byte*>(send_.memory); }
  [[nodiscard]] std::byte* recv() const { return static_cast<std::byte*>(recv_.memory); }

 private:
  struct Window {
    void* memory = nullptr;
    std::size_t bytes = 0;
    void* handle = nullptr;
  };
  struct Functions {
    int (*allocate)(void** memory, std::size_t bytes) = nullptr;
    int (*free)(void* memory) = nullptr;
    int (*add)(device::NcclComm comm, void* memory, std::size_t bytes, void** window,
               int flags) = nullptr;
    int (*remove)(device::NcclComm comm, void* window) = nullptr;
  };
  [[nodiscard]] std::string allocate(Window& window, std::size_t bytes) const;
  [[nodiscard]] std::string add(Window& window) const;
  [[nodiscard]] std::string failure(const char* doing, std::size_t bytes, int result) const;
  void close(Window& window);

  device::NcclCalls calls_;
  device::NcclComm comm_;
  Functions functions_;
  std::string missing_;
  Window send_;
  Window recv_;
};

}  // namespace tutti::app::bench
