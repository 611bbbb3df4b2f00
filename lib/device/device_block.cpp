#include "device_block.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "device/inventory.hpp"

namespace tutti::device {

DeviceBlock::DeviceBlock(std::shared_ptr<const Context> context, std::size_t bytes)
    : context_(std::move(context)), bytes_(bytes), owner_(::getpid()) {
  DeviceAddress address = 0;
  const auto result = context_->cuda().allocate(&address, bytes);
  if (result != cuda_success) {
    throw Error(ErrorCode::system, fmt::format("allocating {} bytes of device memory failed: {}",
                                               bytes, cuda_error_text(context_->cuda(), result)));
  }
  data_ =
      reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): CUDA's number
  try {
    clear();
  } catch (...) {
    context_->cuda().free(address);
    throw;
  }
}

void DeviceBlock::clear() const {
  const auto& cuda = context_->cuda();
  // A stream of its own waits for no other work.
  CudaStream stream = nullptr;
  auto result = cuda.create_stream(&stream, non_blocking_stream);
  if (result == cuda_success) {
    result = cuda.fill(device_address(data_), 0, bytes_, stream);
    if (result == cuda_success) result = cuda.synchronize_stream(stream);
    cuda.destroy_stream(stream);
  }
  if (result == cuda_success) return;
  throw Error(ErrorCode::system,
              fmt::format("clearing device memory failed: {}", cuda_error_text(cuda, result)));
}

DeviceBlock::~DeviceBlock() {
  if (::getpid() != owner_) return;
  const auto& cuda = context_->cuda();
  CudaContext before = nullptr;
  cuda.get_context(&before);
  if (cuda.set_context(context_->handle()) != cuda_success) return;
  cuda.free(device_address(data_));
  cuda.set_context(before);
}

}  // namespace tutti::device
