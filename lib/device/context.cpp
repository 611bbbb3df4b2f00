#include "device/context.hpp"

#include <fmt/format.h>

#include "device/inventory.hpp"
#include "tutti/error.hpp"

namespace tutti::device {

Context::Context(std::shared_ptr<const Library<CudaCalls>> cuda, int device_index)
    : cuda_(std::move(cuda)), index_(device_index) {
  const auto& calls = cuda_->calls;
  const char* doing = "choosing the device";
  auto result = calls.device_get(&device_, device_index);
  if (result == cuda_success) {
    doing = "retaining the CUDA context";
    result = calls.retain_primary_context(&handle_, device_);
  }
  if (result == cuda_success) return;
  throw Error(ErrorCode::system, fmt::format("{} of device {} failed: {}", doing, device_index,
                                             cuda_error_text(calls, result)));
}

Context::~Context() {
  cuda_->calls.release_primary_context(device_);
}

CurrentContext::CurrentContext(const Context& context) : cuda_(context.cuda()) {
  const auto result = set(context);
  if (result == cuda_success) return;
  throw Error(ErrorCode::system,
              fmt::format("setting the current device failed: {}", cuda_error_text(cuda_, result)));
}

int Context::compute_major() const {
  int major = 0;
  const auto result = cuda().device_attribute(&major, attribute_compute_major, device_);
  return result == cuda_success ? major : 0;
}

}  // namespace tutti::device
