#pragma once

#include <cstddef>
#include <functional>

/// Shared by the fake CUDA and NCCL libraries. Device memory is mapped twice: programs see
/// inaccessible addresses, so code that treats device memory as host memory crashes.
///
/// Environment variables configure the fake machine. libcuda.so.1 reads at its first use:
///     FAKE_GPU_DEVICES       number of devices (4); CUDA_VISIBLE_DEVICES selects among them
///     FAKE_GPU_NAME          ("Fake GPU")
///     FAKE_GPU_MIG           1: all devices are MIG slices
/// and at each call:
///     FAKE_GPU_CONTEXT_FAILS 1: contexts can't be created
///     FAKE_GPU_ISLAND        index of a device without peer-to-peer access (none)
///     FAKE_GPU_IPC           1: memory of other processes can be mapped, so that there is a direct
///     path FAKE_GPU_DELAY_US      minimum duration of each copy or other work on a stream
/// libnccl.so.2 reads at each call:
///     FAKE_NCCL_SEGMENT      the file through which the ranks communicate: required
///     FAKE_NCCL_VERSION      22809
///     FAKE_NCCL_ID_RESULT, FAKE_NCCL_INIT_RESULT, FAKE_NCCL_CALL_RESULT, FAKE_NCCL_ASYNC_RESULT
///                            error codes that these calls return instead of working
///     FAKE_NCCL_WINDOW_RESULT
///                            the same, of ncclCommWindowRegister
///     FAKE_NCCL_ID_HANGS     1: no id is ever created
///     FAKE_NCCL_INIT_HANGS   1: initialisation never returns
///     FAKE_NCCL_CALL_BLOCKS  1: calls block until the communicator is aborted; 2: forever
///     FAKE_NCCL_ABORT_HANGS  1: abort never returns
namespace fake_gpu {

/// The value of a variable, or `otherwise`.
int setting(const char* name, int otherwise);

extern "C" {
/// An accessible alias of memory from a program: device, pinned or pageable.
void* fake_gpu_alias(const void* address);
/// The device that is current in the calling thread; 0 without one.
int fake_gpu_current_device();
/// Runs `work(data)` in stream order, or adds it to the graph that is being captured.
void fake_gpu_enqueue(void* stream, const std::function<void()>* work);
}

}  // namespace fake_gpu
