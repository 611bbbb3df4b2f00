#pragma once

#include <array>
#include <cstddef>

/// The calls of the CUDA driver and of NCCL that tutti uses, as tables that library.hpp fills at
/// run time, or a test. Declared here, not by CUDA's and NCCL's headers, so that one build serves
/// hosts with and without them; a test compares the declarations with the headers if they are
/// installed. Plain function pointers keep the cost of a call at NCCL's own.
namespace tutti::device {

using CudaResult = int;  ///< CUresult; 0 is success
using CudaDevice = int;
using CudaContext = void*;
using CudaStream = void*;
using CudaEvent = void*;
using DeviceAddress = unsigned long long;  ///< CUdeviceptr

/// CUDA's driver takes device memory as a number, its runtime and the API of tutti as a pointer.
[[nodiscard]] inline DeviceAddress device_address(const void* memory) {
  return reinterpret_cast<DeviceAddress>(memory);
}

inline constexpr CudaResult cuda_success = 0;
inline constexpr CudaResult cuda_not_ready = 600;

// Flags of streams and events.
inline constexpr unsigned non_blocking_stream = 1;  ///< does not wait for the default stream
inline constexpr unsigned event_without_timing = 2;
inline constexpr int not_capturing = 0;
inline constexpr int capture_mode_relaxed = 2;
// Attributes for cuPointerGetAttributes.
inline constexpr int attribute_memory_type = 2;
inline constexpr int attribute_is_managed = 8;
inline constexpr int attribute_device_ordinal = 9;
inline constexpr unsigned memory_unknown = 0;  ///< not CUDA's memory
inline constexpr unsigned memory_host = 1;
inline constexpr unsigned memory_device = 2;
// Attributes for cuDeviceGetAttribute.
inline constexpr int attribute_compute_major = 75;
inline constexpr int attribute_stream_waits = 122;  ///< for 64-bit values

using CudaUuid = std::array<char, 16>;

/// CUipcMemHandle: passed by value.
struct CudaIpcHandle {
  char bytes[64];  // NOLINT(modernize-avoid-c-arrays): CUDA's layout
};
inline constexpr unsigned ipc_with_peer_access = 1;
inline constexpr unsigned wait_until_reached = 0;  ///< for stream_wait_value

/// Calls of the CUDA driver (libcuda.so.1). Optional ones may be null.
struct CudaCalls {
  CudaResult (*init)(unsigned flags) = nullptr;
  CudaResult (*driver_version)(int* version) = nullptr;  ///< optional
  CudaResult (*device_count)(int* count) = nullptr;
  CudaResult (*device_get)(CudaDevice* device, int ordinal) = nullptr;
  CudaResult (*device_name)(char* name, int length, CudaDevice device) = nullptr;
  /// A MIG slice has its own UUID.
  CudaResult (*device_uuid)(CudaUuid* uuid, CudaDevice device) = nullptr;
  CudaResult (*card_uuid)(CudaUuid* uuid,
                          CudaDevice device) = nullptr;  ///< optional: the UUID of the whole GPU
  CudaResult (*device_bus_id)(char* bus_id, int length, CudaDevice device) = nullptr;
  CudaResult (*device_attribute)(int* value, int attribute, CudaDevice device) = nullptr;
  /// Whether `device` can access the memory of `peer`; optional, for reports only.
  CudaResult (*device_can_access_peer)(int* can, CudaDevice device, CudaDevice peer) = nullptr;
  CudaResult (*retain_primary_context)(CudaContext* context, CudaDevice device) = nullptr;
  CudaResult (*release_primary_context)(CudaDevice device) = nullptr;
  CudaResult (*set_context)(CudaContext context) = nullptr;
  CudaResult (*get_context)(CudaContext* context) = nullptr;

  CudaResult (*allocate)(DeviceAddress* address, std::size_t bytes) = nullptr;
  CudaResult (*free)(DeviceAddress address) = nullptr;
  /// In stream order, also during capture; optional (CUDA 11.2).
  CudaResult (*allocate_async)(DeviceAddress* address, std::size_t bytes,
                               CudaStream stream) = nullptr;
  CudaResult (*free_async)(DeviceAddress address, CudaStream stream) = nullptr;
  CudaResult (*allocate_pinned)(void** address, std::size_t bytes, unsigned flags) = nullptr;
  CudaResult (*free_pinned)(void* address) = nullptr;
  /// Unlike its singular form it succeeds, with zeroes, for memory that is not CUDA's.
  CudaResult (*pointer_attributes)(unsigned count, int* attributes, void** values,
                                   DeviceAddress address) = nullptr;
  CudaResult (*copy_to_device)(DeviceAddress to, const void* from, std::size_t bytes,
                               CudaStream stream) = nullptr;
  CudaResult (*copy_to_host)(void* to, DeviceAddress from, std::size_t bytes,
                             CudaStream stream) = nullptr;
  CudaResult (*copy_on_device)(DeviceAddress to, DeviceAddress from, std::size_t bytes,
                               CudaStream stream) = nullptr;
  CudaResult (*fill)(DeviceAddress to, unsigned char value, std::size_t bytes,
                     CudaStream stream) = nullptr;

  CudaResult (*create_stream)(CudaStream* stream, unsigned flags) = nullptr;
  CudaResult (*destroy_stream)(CudaStream stream) = nullptr;
  CudaResult (*query_stream)(CudaStream stream) = nullptr;
  CudaResult (*synchronize_stream)(CudaStream stream) = nullptr;
  CudaResult (*stream_is_capturing)(CudaStream stream, int* status) = nullptr;
  CudaResult (*stream_wait_event)(CudaStream stream, CudaEvent event, unsigned flags) = nullptr;
  CudaResult (*create_event)(CudaEvent* event, unsigned flags) = nullptr;
  CudaResult (*destroy_event)(CudaEvent event) = nullptr;
  CudaResult (*record_event)(CudaEvent event, CudaStream stream) = nullptr;
  CudaResult (*query_event)(CudaEvent event) = nullptr;
  CudaResult (*synchronize_event)(CudaEvent event) = nullptr;
  CudaResult (*error_text)(CudaResult result, const char** text) = nullptr;

  // For kernels of our own and memory of other processes; all optional.
  CudaResult (*load_module)(void** module, const void* image) = nullptr;
  CudaResult (*unload_module)(void* module) = nullptr;
  CudaResult (*get_function)(void** function, void* module, const char* name) = nullptr;
  CudaResult (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CudaStream stream, void** arguments, void** extra) = nullptr;
  CudaResult (*export_memory)(CudaIpcHandle* handle, DeviceAddress address) = nullptr;
  CudaResult (*import_memory)(DeviceAddress* address, CudaIpcHandle handle,
                              unsigned flags) = nullptr;
  CudaResult (*close_imported)(DeviceAddress address) = nullptr;
  /// Unlike a handle it is never used again.
  CudaResult (*stream_id)(CudaStream stream, unsigned long long* id) = nullptr;
  CudaResult (*stream_wait_value)(CudaStream stream, DeviceAddress address,
                                  unsigned long long value, unsigned flags) = nullptr;
  /// Optional outputs may be null.
  CudaResult (*capture_info)(CudaStream stream, int* status, unsigned long long* id, void** graph,
                             const void** dependencies, std::size_t* count) = nullptr;
  /// What the calling thread may do while streams are captured.
  CudaResult (*exchange_capture_mode)(int* mode) = nullptr;
};

using NcclResult = int;
using NcclComm = void*;

inline constexpr NcclResult nccl_success = 0;
inline constexpr NcclResult nccl_in_progress = 7;
inline constexpr std::size_t nccl_unique_id_bytes = 128;
inline constexpr int nccl_scalar_on_host = 1;  ///< read before the call returns

/// ncclUniqueId: passed by value.
struct NcclUniqueId {
  char bytes[nccl_unique_id_bytes];  // NOLINT(modernize-avoid-c-arrays): NCCL's layout
};

/// Calls of NCCL (libnccl.so.2). Types and operators are NCCL's numbers (nccl_numbers.hpp).
/// Optional ones are newer than 2.18.
struct NcclCalls {
  NcclResult (*get_version)(int* version) = nullptr;
  NcclResult (*get_unique_id)(NcclUniqueId* id) = nullptr;
  NcclResult (*init_rank)(NcclComm* comm, int ranks, NcclUniqueId id, int rank) = nullptr;
  NcclResult (*finalize)(NcclComm comm) = nullptr;  ///< optional
  NcclResult (*destroy)(NcclComm comm) = nullptr;
  NcclResult (*abort)(NcclComm comm) = nullptr;
  NcclResult (*get_async_error)(NcclComm comm, NcclResult* result) = nullptr;
  const char* (*error_text)(NcclResult result) = nullptr;
  const char* (*last_error)(NcclComm comm) = nullptr;  ///< optional
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*send)(const void* from, std::size_t count, int type, int peer, NcclComm comm,
                     CudaStream stream) = nullptr;
  NcclResult (*recv)(void* to, std::size_t count, int type, int peer, NcclComm comm,
                     CudaStream stream) = nullptr;
  NcclResult (*broadcast)(const void* from, void* to, std::size_t count, int type, int root,
                          NcclComm comm, CudaStream stream) = nullptr;
  NcclResult (*reduce)(const void* from, void* to, std::size_t count, int type, int op, int root,
                       NcclComm comm, CudaStream stream) = nullptr;
  NcclResult (*all_reduce)(const void* from, void* to, std::size_t count, int type, int op,
                           NcclComm comm, CudaStream stream) = nullptr;
  /// `count`: elements of one block.
  NcclResult (*all_gather)(const void* from, void* to, std::size_t count, int type, NcclComm comm,
                           CudaStream stream) = nullptr;
  NcclResult (*reduce_scatter)(const void* from, void* to, std::size_t count, int type, int op,
                               NcclComm comm, CudaStream stream) = nullptr;
  /// Makes an operator that sums contributions multiplied by `scalar`, an element of `type`.
  NcclResult (*create_premultiplied_sum)(int* op, void* scalar, int type, int residence,
                                         NcclComm comm) = nullptr;
  NcclResult (*destroy_operator)(int op, NcclComm comm) = nullptr;
};

}  // namespace tutti::device
