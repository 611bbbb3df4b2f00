#include "buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "device/device_memory.hpp"
#include "text.hpp"

namespace tutti::app {

Buffer::Buffer(JobSession& job, std::size_t bytes, bool allocated) : memory_(job.device_memory()) {
  try {
    if (allocated) {
      allocated_ = job.communicator().allocate<std::byte>(bytes);
      host_ = std::span(allocated_.data(), bytes);
    } else {
      own_.resize(bytes);
      host_ = own_;
    }
  } catch (const std::exception&) {  // bad_alloc or length_error
    throw Error(ErrorCode::system,
                fmt::format("rank {} can't allocate {} of memory: give a smaller --size",
                            job.communicator().rank(), size_text(bytes)));
  }
  if (!memory_) return;
  // NCCL rejects a null pointer for zero elements too.
  auto device_bytes = std::max<std::uint64_t>(bytes, 1);
  if (!allocated) {
    device_ = memory_->allocate(device_bytes);
    return;
  }
  auto& communicator = job.communicator();
  communicator.all_reduce(in_place, std::span(&device_bytes, 1), max);
  allocated_on_device_ = communicator.allocate_device<std::byte>(device_bytes);
  device_ = allocated_on_device_.data();
}

Buffer::~Buffer() {
  if (device_ != nullptr && allocated_on_device_.size() == 0) memory_->free(device_);
}

void Buffer::upload() {
  if (device_ != nullptr) memory_->copy_to_device(device_, host_.data(), host_.size());
}

void Buffer::download() {
  if (device_ != nullptr) memory_->copy_to_host(host_.data(), device_, host_.size());
}

}  // namespace tutti::app
