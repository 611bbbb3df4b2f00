// Compares the library's declarations of CUDA's and NCCL's calls with the headers of both.
#include <cuda.h>
#include <nccl.h>

#include <type_traits>

#include "device/calls.hpp"
#include "device/nccl_numbers.hpp"
#include "real_nccl.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

/// Passed in the same way: integers of one size and signedness, enums as their integers, pointers
/// as pointers, the id by value.
template <class Theirs, class Ours>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Theirs> || std::is_pointer_v<Ours>) {
    return std::is_pointer_v<Theirs> && std::is_pointer_v<Ours>;
  } else if constexpr (std::is_same_v<Theirs, ncclUniqueId>) {
    return std::is_same_v<Ours, NcclUniqueId>;
  } else if constexpr (std::is_enum_v<Theirs>) {
    return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
  } else {
    return std::is_integral_v<Theirs> && std::is_integral_v<Ours> &&
           sizeof(Theirs) == sizeof(Ours) && std::is_signed_v<Theirs> == std::is_signed_v<Ours>;
  }
}

template <class Theirs, class Ours>
struct SameCall : std::false_type {};
template <class R1, class... A1, class R2, class... A2>
requires(sizeof...(A1) == sizeof...(A2)) struct SameCall<R1 (*)(A1...), R2 (*)(A2...)> {
  static constexpr bool value = alike<R1, R2>() && (alike<A1, A2>() && ...);
};

#define SAME(theirs, Table, ours) \
  static_assert(SameCall<decltype(&theirs), decltype(Table::ours)>::value, #theirs)

SAME(cuInit, CudaCalls, init);
SAME(cuDriverGetVersion, CudaCalls, driver_version);
SAME(cuDeviceGetCount, CudaCalls, device_count);
SAME(cuDeviceGet, CudaCalls, device_get);
SAME(cuDeviceGetName, CudaCalls, device_name);
SAME(cuDeviceGetUuid_v2, CudaCalls, device_uuid);
SAME(cuDeviceGetPCIBusId, CudaCalls, device_bus_id);
SAME(cuDeviceGetAttribute, CudaCalls, device_attribute);
SAME(cuDeviceCanAccessPeer, CudaCalls, device_can_access_peer);
SAME(cuDevicePrimaryCtxRetain, CudaCalls, retain_primary_context);
SAME(cuDevicePrimaryCtxRelease_v2, CudaCalls, release_primary_context);
SAME(cuCtxSetCurrent, CudaCalls, set_context);
SAME(cuCtxGetCurrent, CudaCalls, get_context);
SAME(cuMemAlloc_v2, CudaCalls, allocate);
SAME(cuMemFree_v2, CudaCalls, free);
SAME(cuMemAllocAsync, CudaCalls, allocate_async);
SAME(cuMemFreeAsync, CudaCalls, free_async);
SAME(cuMemHostAlloc, CudaCalls, allocate_pinned);
SAME(cuMemFreeHost, CudaCalls, free_pinned);
SAME(cuPointerGetAttributes, CudaCalls, pointer_attributes);
SAME(cuMemcpyHtoDAsync_v2, CudaCalls, copy_to_device);
SAME(cuMemcpyDtoHAsync_v2, CudaCalls, copy_to_host);
SAME(cuMemcpyDtoDAsync_v2, CudaCalls, copy_on_device);
SAME(cuMemsetD8Async, CudaCalls, fill);
SAME(cuStreamCreate, CudaCalls, create_stream);
SAME(cuStreamDestroy_v2, CudaCalls, destroy_stream);
SAME(cuStreamQuery, CudaCalls, query_stream);
SAME(cuStreamSynchronize, CudaCalls, synchronize_stream);
SAME(cuStreamIsCapturing, CudaCalls, stream_is_capturing);
SAME(cuStreamWaitEvent, CudaCalls, stream_wait_event);
SAME(cuEventCreate, CudaCalls, create_event);
SAME(cuEventDestroy_v2, CudaCalls, destroy_event);
SAME(cuEventRecord, CudaCalls, record_event);
SAME(cuEventQuery, CudaCalls, query_event);
SAME(cuEventSynchronize, CudaCalls, synchronize_event);
SAME(cuThreadExchangeStreamCaptureMode, CudaCalls, exchange_capture_mode);
SAME(cuGetErrorString, CudaCalls, error_text);

SAME(ncclGetVersion, NcclCalls, get_version);
SAME(ncclGetUniqueId, NcclCalls, get_unique_id);
SAME(ncclCommInitRank, NcclCalls, init_rank);
SAME(ncclCommFinalize, NcclCalls, finalize);
SAME(ncclCommDestroy, NcclCalls, destroy);
SAME(ncclCommAbort, NcclCalls, abort);
SAME(ncclCommGetAsyncError, NcclCalls, get_async_error);
SAME(ncclGetErrorString, NcclCalls, error_text);
SAME(ncclGetLastError, NcclCalls, last_error);
SAME(ncclGroupStart, NcclCalls, group_start);
SAME(ncclGroupEnd, NcclCalls, group_end);
SAME(ncclSend, NcclCalls, send);
SAME(ncclRecv, NcclCalls, recv);
SAME(ncclBroadcast, NcclCalls, broadcast);
SAME(ncclReduce, NcclCalls, reduce);
SAME(ncclAllReduce, NcclCalls, all_reduce);
SAME(ncclAllGather, NcclCalls, all_gather);
SAME(ncclReduceScatter, NcclCalls, reduce_scatter);
SAME(ncclRedOpCreatePreMulSum, NcclCalls, create_premultiplied_sum);
SAME(ncclRedOpDestroy, NcclCalls, destroy_operator);

// The functions that libtutti_nccl.so hands on to.
using preload::RealNccl;
SAME(ncclCommInitRank, RealNccl, init_rank);
SAME(ncclCommInitRankConfig, RealNccl, init_rank_config);
SAME(ncclCommSplit, RealNccl, split);
SAME(ncclCommDestroy, RealNccl, destroy);
SAME(ncclCommAbort, RealNccl, abort);
SAME(ncclCommGetAsyncError, RealNccl, get_async_error);
SAME(ncclGetLastError, RealNccl, last_error);
SAME(ncclCommCount, RealNccl, count);
SAME(ncclCommUserRank, RealNccl, user_rank);
SAME(ncclCommCuDevice, RealNccl, cu_device);
SAME(ncclGroupStart, RealNccl, group_start);
SAME(ncclGroupEnd, RealNccl, group_end);
SAME(ncclAllReduce, RealNccl, all_reduce);
SAME(ncclBroadcast, RealNccl, broadcast);
SAME(ncclAllGather, RealNccl, all_gather);
SAME(ncclReduceScatter, RealNccl, reduce_scatter);
SAME(ncclReduce, RealNccl, reduce);
SAME(ncclSend, RealNccl, send);
SAME(ncclRecv, RealNccl, recv);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 3)
SAME(ncclCommShrink, RealNccl, shrink);
SAME(ncclGroupSimulateEnd, RealNccl, group_simulate_end);
SAME(ncclAlltoAll, RealNccl, all_to_all);
SAME(ncclGather, RealNccl, gather);
SAME(ncclScatter, RealNccl, scatter);
static_assert(NCCL_SHRINK_ABORT == preload::shrink_aborts);
#endif
static_assert(ncclUnhandledCudaError == preload::nccl_unhandled_cuda_error);
static_assert(ncclInvalidUsage == preload::nccl_invalid_usage);
static_assert(ncclRemoteError == preload::nccl_remote_error);

static_assert(sizeof(ncclUniqueId) == sizeof(NcclUniqueId));
static_assert(sizeof(CUuuid) == sizeof(CudaUuid));
static_assert(sizeof(CUdeviceptr) == sizeof(DeviceAddress));
static_assert(CUDA_SUCCESS == cuda_success);
static_assert(CUDA_ERROR_NOT_READY == cuda_not_ready);
static_assert(CU_STREAM_NON_BLOCKING == non_blocking_stream);
static_assert(CU_EVENT_DISABLE_TIMING == event_without_timing);
static_assert(CU_STREAM_CAPTURE_STATUS_NONE == not_capturing);
static_assert(CU_STREAM_CAPTURE_MODE_RELAXED == capture_mode_relaxed);
static_assert(CU_POINTER_ATTRIBUTE_MEMORY_TYPE == attribute_memory_type);
static_assert(CU_POINTER_ATTRIBUTE_IS_MANAGED == attribute_is_managed);
static_assert(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL == attribute_device_ordinal);
static_assert(CU_MEMORYTYPE_HOST == memory_host);
static_assert(CU_MEMORYTYPE_DEVICE == memory_device);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == attribute_compute_major);
static_assert(ncclSuccess == nccl_success);
static_assert(ncclInProgress == nccl_in_progress);
static_assert(ncclScalarHostImmediate == nccl_scalar_on_host);

}  // namespace

TEST_CASE("types and operators have the numbers of nccl.h") {
  CHECK(nccl_type(Type::i8) == ncclInt8);
  CHECK(nccl_type(Type::u8) == ncclUint8);
  CHECK(nccl_type(Type::i32) == ncclInt32);
  CHECK(nccl_type(Type::u32) == ncclUint32);
  CHECK(nccl_type(Type::i64) == ncclInt64);
  CHECK(nccl_type(Type::u64) == ncclUint64);
  CHECK(nccl_type(Type::f16) == ncclFloat16);
  CHECK(nccl_type(Type::bf16) == ncclBfloat16);
  CHECK(nccl_type(Type::f32) == ncclFloat32);
  CHECK(nccl_type(Type::f64) == ncclFloat64);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
  CHECK(nccl_type(Type::f8e4m3) == ncclFloat8e4m3);
  CHECK(nccl_type(Type::f8e5m2) == ncclFloat8e5m2);
#endif
  CHECK(nccl_operator(Type::f32, Operator::sum) == ncclSum);
  CHECK(nccl_operator(Type::f32, Operator::product) == ncclProd);
  CHECK(nccl_operator(Type::f32, Operator::min) == ncclMin);
  CHECK(nccl_operator(Type::f32, Operator::max) == ncclMax);
  CHECK(nccl_operator(Type::f32, Operator::average) == ncclAvg);
}

}  // namespace tutti::device::test
