#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// All that touches silicon: the calls of the CUDA driver and of NCCL that we use, as tables that
/// are filled at run time (library.hpp) or by a test. Declared here and not by their headers, so
/// that one build serves nodes with and without them.
namespace tutti::device {

using CudaResult = int;  ///< CUresult; 0 is success
using CudaDevice = int;
using CudaContext = void*;
using CudaStream = void*;
using DeviceAddress = unsigned long long;  ///< CUdeviceptr

inline constexpr CudaResult cuda_success = 0;
inline constexpr CudaResult cuda_not_ready = 600;

using CudaUuid = std::array<char, 16>;

/// The CUDA driver's calls (libcuda.so.1). An optional one may be empty.
struct CudaCalls {
  std::function<CudaResult(unsigned flags)> init;
  std::function<CudaResult(int* count)> device_count;
  std::function<CudaResult(CudaDevice* device, int ordinal)> device_get;
  std::function<CudaResult(char* name, int length, CudaDevice device)> device_name;
  std::function<CudaResult(CudaUuid* uuid, CudaDevice device)>
      device_uuid;  ///< a MIG slice has its own
  std::function<CudaResult(CudaUuid* uuid, CudaDevice device)>
      card_uuid;  ///< optional: the whole card's
  std::function<CudaResult(char* bus_id, int length, CudaDevice device)> device_bus_id;
  std::function<CudaResult(CudaContext* context, CudaDevice device)> retain_primary_context;
  std::function<CudaResult(CudaDevice device)> release_primary_context;
  std::function<CudaResult(CudaContext context)> set_context;
  std::function<CudaResult(CudaContext* context)> get_context;
  std::function<CudaResult(DeviceAddress* address, std::size_t bytes)> allocate;
  std::function<CudaResult(DeviceAddress address)> free;
  std::function<CudaResult(DeviceAddress to, const void* from, std::size_t bytes,
                           CudaStream stream)>
      copy_to_device;
  std::function<CudaResult(void* to, DeviceAddress from, std::size_t bytes, CudaStream stream)>
      copy_to_host;
  std::function<CudaResult(CudaStream* stream, unsigned flags)> create_stream;
  std::function<CudaResult(CudaStream stream)> destroy_stream;
  std::function<CudaResult(CudaStream stream)> query_stream;
  std::function<CudaResult(CudaStream stream)> synchronize_stream;
  std::function<CudaResult(CudaResult result, const char** text)> error_text;
};

using NcclResult = int;
using NcclComm = void*;

inline constexpr NcclResult nccl_success = 0;
inline constexpr NcclResult nccl_in_progress = 7;
inline constexpr std::size_t nccl_unique_id_bytes = 128;

/// ncclUniqueId: passed by value.
struct NcclUniqueId {
  char bytes[nccl_unique_id_bytes];  // NOLINT(modernize-avoid-c-arrays): the layout of NCCL's own
};

/// NCCL's calls (libnccl.so.2). Types and operators are NCCL's numbers (nccl_numbers.hpp). Optional
/// ones came after 2.18.
struct NcclCalls {
  std::function<NcclResult(int* version)> get_version;
  std::function<NcclResult(NcclUniqueId* id)> get_unique_id;
  std::function<NcclResult(NcclComm* comm, int ranks, NcclUniqueId id, int rank)> init_rank;
  std::function<NcclResult(NcclComm comm)> finalize;
  std::function<NcclResult(NcclComm comm)> destroy;
  std::function<NcclResult(NcclComm comm)> abort;
  std::function<NcclResult(NcclComm comm, NcclResult* result)> get_async_error;
  std::function<const char*(NcclResult result)> error_text;
  std::function<const char*(NcclComm comm)> last_error;
  std::function<NcclResult()> group_start;
  std::function<NcclResult()> group_end;
  std::function<NcclResult(const void* from, std::size_t count, int type, int peer, NcclComm comm,
                           CudaStream stream)>
      send;
  std::function<NcclResult(void* to, std::size_t count, int type, int peer, NcclComm comm,
                           CudaStream stream)>
      recv;
  std::function<NcclResult(const void* from, void* to, std::size_t count, int type, int root,
                           NcclComm comm, CudaStream stream)>
      broadcast;
  std::function<NcclResult(const void* from, void* to, std::size_t count, int type, int op,
                           NcclComm comm, CudaStream stream)>
      all_reduce;
};

}  // namespace tutti::device
