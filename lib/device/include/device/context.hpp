#pragma once

#include <memory>

#include "device/api_errors.hpp"
#include "device/library.hpp"

namespace tutti::device {

/// The primary context of one device, retained for as long as this lives. All communicators of a
/// process share it.
class Context {
 public:
  /// `device_index`: among the devices that this process sees. Throws Error{system}.
  Context(std::shared_ptr<const Library<CudaCalls>> cuda, int device_index);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  [[nodiscard]] const CudaCalls& cuda() const { return cuda_->calls; }
  [[nodiscard]] CudaDevice device() const { return device_; }
  /// Among the devices that this process sees.
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] CudaContext handle() const { return handle_; }
  /// 9 for compute capability 9.0; 0 where the driver does not say.
  [[nodiscard]] int compute_major() const;

  /// Makes the device current in the calling thread for as long as it lives.
  class Current {
   public:
    Current(const Context& context, const Faults& faults) : cuda_(context.cuda()) {
      cuda_.get_context(&before_);
      if (before_ == context.handle_) return;
      faults.check(cuda_.set_context(context.handle_), "making the device current");
      changed_ = true;
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current() {
      if (changed_) cuda_.set_context(before_);
    }

   private:
    const CudaCalls& cuda_;
    CudaContext before_ = nullptr;
    bool changed_ = false;
  };

 private:
  std::shared_ptr<const Library<CudaCalls>> cuda_;
  int index_;
  CudaDevice device_ = 0;
  CudaContext handle_ = nullptr;
};

}  // namespace tutti::device
