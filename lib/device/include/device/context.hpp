#pragma once

#include <memory>

#include "device/api_errors.hpp"
#include "device/library.hpp"

namespace tutti::device {

/// The primary context of one device, retained for the lifetime of this object. All communicators
/// of a process share it.
class Context {
 public:
  /// `device_index` counts the devices that this process sees. Throws Error{system}.
  Context(std::shared_ptr<const Library<CudaCalls>> cuda, int device_index);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  [[nodiscard]] const CudaCalls& cuda() const { return cuda_->calls; }
  [[nodiscard]] CudaDevice device() const { return device_; }
  /// Index among the devices that this process sees.
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] CudaContext handle() const { return handle_; }
  /// 9 for compute capability 9.0; 0 if the driver does not report it.
  [[nodiscard]] int compute_major() const;

 private:
  std::shared_ptr<const Library<CudaCalls>> cuda_;
  int index_;
  CudaDevice device_ = 0;
  CudaContext handle_ = nullptr;
};

/// Makes the device current in the calling thread; the destructor restores the previous one.
class CurrentContext {
 public:
  CurrentContext(const Context& context, const ApiErrors& errors) : cuda_(context.cuda()) {
    errors.check(set(context), "setting the current device");
  }
  /// For set-up, before all ranks can agree on an error. Throws Error{system}.
  explicit CurrentContext(const Context& context);
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    if (changed_) cuda_.set_context(before_);
  }

 private:
  [[nodiscard]] CudaResult set(const Context& context) {
    cuda_.get_context(&before_);
    if (before_ == context.handle()) return cuda_success;
    const auto result = cuda_.set_context(context.handle());
    changed_ = result == cuda_success;
    return result;
  }

  const CudaCalls& cuda_;
  CudaContext before_ = nullptr;
  bool changed_ = false;
};

}  // namespace tutti::device
