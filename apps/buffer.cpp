#include "buffer.hpp"

#include <fmt/format.h>

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
  // // NCCL rejects a null pointer for zero elements too.
  if (memory_) device_ = memory_->allocate(bytes == 0 ? 1 : bytes);
}

Buffer::~Buffer() {
  if (device_ != nullptr) memory_->free(device_);
}

void Buffer::upload() {
  if (device_ != nullptr) memory_->copy_to_device(device_, host_.data(), host_.size());
}

void Buffer::download() {
  if (device_ != nullptr) memory_->copy_to_host(host_.data(), device_, host_.size());
}

}  // namespace tutti::app
