#include "kernels.hpp"

#include <fmt/format.h>

#include "device/inventory.hpp"
#include "image.hpp"

namespace tutti::device::direct {

Kernels::Kernels(std::shared_ptr<const Context> context) : context_(std::move(context)) {
  const auto& cuda = context_->cuda();
  auto result = cuda.load_module(&module_, kernel_image());
  // All now: loading one may be forbidden while a stream is captured.
  for (const auto& name : kernel_names()) {
    if (result != cuda_success) break;
    result = cuda.get_function(&functions_[name], module_, name.c_str());
  }
  if (result == cuda_success) return;
  if (module_ != nullptr) cuda.unload_module(module_);
  throw Error(ErrorCode::system,
              fmt::format("loading tutti's kernels failed: {}", cuda_error_text(cuda, result)));
}

Kernels::~Kernels() {
  context_->cuda().unload_module(module_);
}

}  // namespace tutti::device::direct
