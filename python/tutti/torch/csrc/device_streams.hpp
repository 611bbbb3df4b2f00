#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

/// CUDA's streams by torch's interface for all devices, so that the extension needs no header of
/// CUDA. What that interface lacks comes from torch.cuda in Python and from the driver.
namespace tutti::torch_backend {

/// The stream that the calling thread uses on `device`.
inline c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// "cuda" is the device that the calling thread uses.
inline c10::Device with_index(c10::Device device) {
  return device.has_index() ? device : c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

/// Devices that the process sees; 0 without a driver. Makes no context.
inline int device_count() {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return 0;
  return c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
}

/// Two functions of the driver, looked up when the first is called: by then torch has initialised
/// CUDA. They do nothing where there is no driver.
class Driver {
 public:
  /// Whether what is queued on `stream` becomes part of a graph.
  [[nodiscard]] bool is_capturing(void* stream) {
    constexpr int not_capturing = 0;
    int status = not_capturing;
    load();
    return is_capturing_ != nullptr && is_capturing_(stream, &status) == 0 &&
           status != not_capturing;
  }
  /// For a thread that captures nothing: its queries of events do not spoil another thread's
  /// capture.
  void tolerate_captures() {
    int mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
    load();
    if (exchange_mode_ != nullptr) exchange_mode_(&mode);
  }

 private:
  void load() {
    std::call_once(loaded_, [this] {
      void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY);
      if (library == nullptr) return;
      is_capturing_ =
          reinterpret_cast<decltype(is_capturing_)>(::dlsym(library, "cuStreamIsCapturing"));
      exchange_mode_ = reinterpret_cast<decltype(exchange_mode_)>(
          ::dlsym(library, "cuThreadExchangeStreamCaptureMode"));
    });
  }

  std::once_flag loaded_;
  int (*is_capturing_)(void* stream, int* status) = nullptr;
  int (*exchange_mode_)(int* mode) = nullptr;
};

/// The cudaStream_t of torch's streams. Takes the GIL when it sees a stream for the first time.
class StreamHandles {
 public:
  void* of(const c10::Stream& stream) {
    {
      const std::scoped_lock lock(mutex_);
      const auto known = handles_.find(stream.id());
      if (known != handles_.end()) return known->second;
    }
    void* handle = nullptr;
    {
      namespace py = pybind11;
      const py::gil_scoped_acquire gil;
      const auto object = py::module_::import("torch").attr("cuda").attr("Stream")(
          py::arg("stream_id") = stream.id(),
          py::arg("device_index") = static_cast<int>(stream.device_index()),
          py::arg("device_type") = static_cast<int>(stream.device_type()));
      handle = reinterpret_cast<void*>(object.attr("cuda_stream").cast<std::uintptr_t>());
    }
    const std::scoped_lock lock(mutex_);
    handles_[stream.id()] = handle;
    return handle;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<c10::StreamId, void*> handles_;
};

/// One of torch's streams, which torch never destroys.
inline c10::Stream new_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, false);
}

}  // namespace tutti::torch_backend
