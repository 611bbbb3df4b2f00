#pragma once

#include <memory>

#include "device/context.hpp"

namespace tutti::device {

/// Page-locked host memory, which the device's copy engines access directly.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// The device must be current in the calling thread. 0 bytes allocate nothing.
  PinnedMemory(std::shared_ptr<const Context> context, const ApiErrors& errors, std::size_t bytes)
      : context_(std::move(context)) {
    if (bytes == 0) return;
    errors.check(context_->cuda().allocate_pinned(&memory_, bytes, 0),
                 "allocating page-locked memory for staging");
    bytes_ = bytes;
  }
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedMemory() {
    if (memory_ != nullptr) context_->cuda().free_pinned(memory_);
  }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Context> context_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::device
