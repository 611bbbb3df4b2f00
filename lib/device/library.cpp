#include "device/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <initializer_list>

namespace tutti::device {
namespace {

class Loader {
 public:
  /// Tries the names in order; `missing` is the error of the last.
  Loader(std::initializer_list<const char*> names, std::string& missing) : missing_(missing) {
    for (const auto* name : names) {
      handle_ = std::shared_ptr<void>(::dlopen(name, RTLD_NOW | RTLD_LOCAL), [](void* handle) {
        // Never unloaded: CUDA and NCCL have threads and exit handlers of their own.
        static_cast<void>(handle);
      });
      if (handle_) {
        missing_.clear();
        name_ = name;
        return;
      }
      const char* reason = ::dlerror();
      missing_ = reason != nullptr ? reason : name;
    }
  }

  template <class Function>
  void require(Function& function, const char* symbol) {
    if (!look_up(function, symbol) && missing_.empty()) {
      missing_ = fmt::format("{} has no {}: it is too old", name_, symbol);
    }
  }
  template <class Function>
  bool look_up(Function& function, const char* symbol) {
    if (!handle_) return false;
    void* const address = ::dlsym(handle_.get(), symbol);
    if (address == nullptr) return false;
    function = reinterpret_cast<Function>(address);
    return true;
  }
  [[nodiscard]] std::shared_ptr<void> handle() const { return handle_; }

 private:
  std::shared_ptr<void> handle_;
  std::string name_;
  std::string& missing_;
};

}  // namespace

Library<CudaCalls> load_cuda() {
  Library<CudaCalls> library;
  Loader loader({"libcuda.so.1"}, library.missing);
  auto& calls = library.calls;
  loader.require(calls.init, "cuInit");
  loader.look_up(calls.driver_version, "cuDriverGetVersion");
  loader.require(calls.device_count, "cuDeviceGetCount");
  loader.require(calls.device_get, "cuDeviceGet");
  loader.require(calls.device_name, "cuDeviceGetName");
  loader.require(calls.device_uuid, "cuDeviceGetUuid_v2");
  loader.look_up(calls.card_uuid, "cuDeviceGetUuid");
  loader.require(calls.device_bus_id, "cuDeviceGetPCIBusId");
  loader.require(calls.device_attribute, "cuDeviceGetAttribute");
  loader.look_up(calls.device_can_access_peer, "cuDeviceCanAccessPeer");
  loader.require(calls.retain_primary_context, "cuDevicePrimaryCtxRetain");
  loader.require(calls.release_primary_context, "cuDevicePrimaryCtxRelease_v2");
  loader.require(calls.set_context, "cuCtxSetCurrent");
  loader.require(calls.get_context, "cuCtxGetCurrent");
  loader.require(calls.allocate, "cuMemAlloc_v2");
  loader.require(calls.free, "cuMemFree_v2");
  loader.look_up(calls.allocate_async, "cuMemAllocAsync");
  loader.look_up(calls.free_async, "cuMemFreeAsync");
  loader.require(calls.allocate_pinned, "cuMemHostAlloc");
  loader.require(calls.free_pinned, "cuMemFreeHost");
  loader.require(calls.pointer_attributes, "cuPointerGetAttributes");
  loader.require(calls.copy_to_device, "cuMemcpyHtoDAsync_v2");
  loader.require(calls.copy_to_host, "cuMemcpyDtoHAsync_v2");
  loader.require(calls.copy_on_device, "cuMemcpyDtoDAsync_v2");
  loader.require(calls.fill, "cuMemsetD8Async");
  loader.require(calls.create_stream, "cuStreamCreate");
  loader.require(calls.destroy_stream, "cuStreamDestroy_v2");
  loader.require(calls.query_stream, "cuStreamQuery");
  loader.require(calls.synchronize_stream, "cuStreamSynchronize");
  loader.require(calls.stream_is_capturing, "cuStreamIsCapturing");
  loader.require(calls.stream_wait_event, "cuStreamWaitEvent");
  loader.require(calls.create_event, "cuEventCreate");
  loader.require(calls.destroy_event, "cuEventDestroy_v2");
  loader.require(calls.record_event, "cuEventRecord");
  loader.require(calls.query_event, "cuEventQuery");
  loader.require(calls.synchronize_event, "cuEventSynchronize");
  loader.require(calls.error_text, "cuGetErrorString");
  loader.look_up(calls.load_module, "cuModuleLoadData");
  loader.look_up(calls.unload_module, "cuModuleUnload");
  loader.look_up(calls.get_function, "cuModuleGetFunction");
  loader.look_up(calls.launch, "cuLaunchKernel");
  loader.look_up(calls.export_memory, "cuIpcGetMemHandle");
  loader.look_up(calls.import_memory, "cuIpcOpenMemHandle_v2");
  loader.look_up(calls.close_imported, "cuIpcCloseMemHandle");
  loader.look_up(calls.stream_id, "cuStreamGetId");
  loader.look_up(calls.stream_wait_value, "cuStreamWaitValue64_v2");
  loader.look_up(calls.capture_info, "cuStreamGetCaptureInfo_v2");
  loader.look_up(calls.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  library.handle = loader.handle();
  return library;
}

Library<NcclCalls> load_nccl() {
  Library<NcclCalls> library;
  Loader loader({"libnccl.so.2", "libnccl.so"}, library.missing);
  auto& calls = library.calls;
  loader.require(calls.get_version, "ncclGetVersion");
  loader.require(calls.get_unique_id, "ncclGetUniqueId");
  loader.require(calls.init_rank, "ncclCommInitRank");
  loader.look_up(calls.finalize, "ncclCommFinalize");
  loader.require(calls.destroy, "ncclCommDestroy");
  loader.require(calls.abort, "ncclCommAbort");
  loader.require(calls.get_async_error, "ncclCommGetAsyncError");
  loader.require(calls.error_text, "ncclGetErrorString");
  loader.look_up(calls.last_error, "ncclGetLastError");
  loader.require(calls.group_start, "ncclGroupStart");
  loader.require(calls.group_end, "ncclGroupEnd");
  loader.require(calls.send, "ncclSend");
  loader.require(calls.recv, "ncclRecv");
  loader.require(calls.broadcast, "ncclBroadcast");
  loader.require(calls.reduce, "ncclReduce");
  loader.require(calls.all_reduce, "ncclAllReduce");
  loader.require(calls.all_gather, "ncclAllGather");
  loader.require(calls.reduce_scatter, "ncclReduceScatter");
  loader.require(calls.create_premultiplied_sum, "ncclRedOpCreatePreMulSum");
  loader.require(calls.destroy_operator, "ncclRedOpDestroy");
  library.handle = loader.handle();
  return library;
}

}  // namespace tutti::device
