#pragma once

#include <cstddef>
#include <functional>

/// What the two fake libraries have in common. Device memory is mapped twice: programs see
/// addresses that nobody may read or write, so that whatever treats device memory as host memory
/// dies of it.
///
/// Variables of the environment shape the machine. libcuda.so.1 reads, when it is first used:
///   FAKE_GPU_DEVICES       how many there are (4); CUDA_VISIBLE_DEVICES chooses among them
///   FAKE_GPU_NAME          ("Fake GPU")
///   FAKE_GPU_MIG           1: all devices are MIG slices
/// and each time:
///   FAKE_GPU_CONTEXT_FAILS 1: no context can be made
///   FAKE_GPU_ISLAND        the index of a device that no other can reach (none)
///   FAKE_GPU_DELAY_US      how long each copy or other work on a stream takes at least
/// libnccl.so.2 reads each time:
///   FAKE_NCCL_SEGMENT      the file through which the ranks talk: needed
///   FAKE_NCCL_VERSION      22809
///   FAKE_NCCL_ID_RESULT, FAKE_NCCL_INIT_RESULT, FAKE_NCCL_CALL_RESULT, FAKE_NCCL_ASYNC_RESULT
///                          what these calls give instead of working
///   FAKE_NCCL_ID_HANGS     1: no id is ever made
///   FAKE_NCCL_INIT_HANGS   1: set-up never ends
///   FAKE_NCCL_CALL_BLOCKS  1: calls block until the communicator is aborted; 2: for ever
///   FAKE_NCCL_ABORT_HANGS  1: abort never ends
namespace fake_gpu {

/// The value of a variable, or `otherwise`.
int setting(const char* name, int otherwise);

extern "C" {
/// Where the fakes themselves reach memory that programs hand them: device, pinned or plain.
void* fake_gpu_alias(const void* address);
/// Runs `work(data)` in the order of a stream, or keeps it in the graph that is being captured.
void fake_gpu_enqueue(void* stream, const std::function<void()>* work);
}

}  // namespace fake_gpu
